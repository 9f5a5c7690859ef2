// Fetches what draws a session beside the first view, not after it. It runs by itself; what fails is fetched again when the
// page needs it.

/** The names of the files; the build knows them. */
declare const PARTS: string[];

for (const name of PARTS) {
  const link = document.createElement('link');
  link.rel = 'modulepreload';
  link.href = name;
  document.head.append(link);
}
