// The addresses of files in the page. Pure.

/** Where a file or directory of a project is shown. @param path relative to the project, '' for the project itself */
export function fileAddress(project: string, path = '', line?: number): string {
  const parts = path.split('/').map(encodeURIComponent).join('/');
  return `#/p/${project}/files/${parts}${line ? `?line=${line}` : ''}`;
}

/** Where it is shown what has changed in a file since the last commit. */
export function changesAddress(project: string, path: string): string {
  return `${fileAddress(project, path)}?changes`;
}

/** A file or directory of a project. `changes`: what has changed in it is asked for, not its content. */
export type FilePlace = { project: string; path: string; line?: number; changes?: boolean };

/** What such an address names; undefined for another one. */
export function fileIn(hash: string): FilePlace | undefined {
  const found = /^#\/p\/([\w-]+)\/files(?:\/([^?]*))?(?:\?(?:line=(\d+)|(changes)))?$/.exec(hash);
  if (!found) return undefined;
  try {
    const path = (found[2] ?? '').split('/').map(decodeURIComponent).join('/');
    const line = found[3] ? Number(found[3]) : undefined;
    return { project: found[1], path, line, changes: found[4] !== undefined };
  } catch {
    return undefined; // not written by this page
  }
}

/** A path of the project, of what an agent or a person has written: absolute, relative, or with "./". */
export function inProject(root: string, path: string): string {
  const relative = path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
  return relative.replace(/^(\.\/)+/, '');
}
