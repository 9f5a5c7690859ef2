// Preloads the files that render a session while the first view loads, not after it. This is a separate script; a file
// that fails to load is fetched again when it is needed.

/** The names of those files; the build inserts them. */
declare const PARTS: string[];

for (const name of PARTS) {
  const link = document.createElement('link');
  link.rel = 'modulepreload';
  link.href = name;
  document.head.append(link);
}
