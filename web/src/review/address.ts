// The address of a project's review in the web UI. Pure.

export const reviewAddress = (project: string) => `#/p/${project}/review`;

/** The project whose review an address opens, or undefined for any other address. */
export const reviewIn = (hash: string): string | undefined => /^#\/p\/([\w-]+)\/review$/.exec(hash)?.[1];
