/** The address of a search in all conversations, or in the conversations of one project. Pure. */
export const searchAddress = (query: string, project?: string) =>
  `#/search?${new URLSearchParams({ q: query, ...(project ? { project } : {}) })}`;
