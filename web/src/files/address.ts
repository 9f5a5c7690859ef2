// The addresses of files in the web UI. Pure.

/** The address of a file or directory. @param path relative to the project, '' for the project itself */
export function fileAddress(project: string, path = '', line?: number): string {
  const parts = path.split('/').map(encodeURIComponent).join('/');
  return `#/p/${project}/files/${parts}${line ? `?line=${line}` : ''}`;
}

/** The address that shows what has changed in a file since the last commit. */
export function changesAddress(project: string, path: string): string {
  return `${fileAddress(project, path)}?changes`;
}

/** A file or directory of a project. `changes`: whether its changes are shown instead of its content. */
export type FilePlace = { project: string; path: string; line?: number; changes?: boolean };

/** The file or directory that an address opens, or undefined for any other address. */
export function fileIn(hash: string): FilePlace | undefined {
  const found = /^#\/p\/([\w-]+)\/files(?:\/([^?]*))?(?:\?(?:line=(\d+)|(changes)))?$/.exec(hash);
  if (!found) return undefined;
  try {
    const path = (found[2] ?? '').split('/').map(decodeURIComponent).join('/');
    const line = found[3] ? Number(found[3]) : undefined;
    return { project: found[1], path, line, changes: found[4] !== undefined };
  } catch {
    return undefined; // not encoded by `fileAddress`
  }
}

/**
 * Turns a path that an agent or a user wrote (absolute, relative, with "./", or with a slash at the end) into one
 * relative to the project. An absolute path outside the project stays absolute.
 */
export function inProject(root: string, path: string): string {
  const relative = path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
  return relative.replace(/^(\.\/)+/, '').replace(/\/+$/, '');
}
