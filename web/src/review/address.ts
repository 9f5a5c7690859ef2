// The address of a project's review in the page. Pure.

export const reviewAddress = (project: string) => `#/p/${project}/review`;

/** The project whose review an address names; undefined for another address. */
export const reviewIn = (hash: string): string | undefined => /^#\/p\/([\w-]+)\/review$/.exec(hash)?.[1];
