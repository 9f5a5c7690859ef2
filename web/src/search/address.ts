/** Where the conversations are searched, all or those of one project. Pure. */
export const searchAddress = (query: string, project?: string) =>
  `#/search?${new URLSearchParams({ q: query, ...(project ? { project } : {}) })}`;
