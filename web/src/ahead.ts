// Preloads the scripts that render a session while the first view is loading, instead of when a session is opened. The
// build makes this a separate script. A file that can't be loaded here is fetched again when it is needed.

/** The file names of those scripts, which the build inserts. */
declare const PARTS: string[];

for (const name of PARTS) {
  const link = document.createElement('link');
  link.rel = 'modulepreload';
  link.href = name;
  document.head.append(link);
}
