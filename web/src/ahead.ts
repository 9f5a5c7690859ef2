// Preloads the scripts that render a session, at the same time as the first view instead of after it. This is a
// separate script. A file that can't be loaded here is fetched again when it is needed.

/** The file names of those scripts; the build inserts them. */
declare const PARTS: string[];

for (const name of PARTS) {
  const link = document.createElement('link');
  link.rel = 'modulepreload';
  link.href = name;
  document.head.append(link);
}
