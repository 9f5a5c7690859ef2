// Starts what is needed after the first view while that is still loading: the scripts that render a session, and the
// connection to the server. The build makes this a separate script. A file that can't be loaded here is fetched again
// when it is needed.

import { newSocket } from './protocol/socket.ts';
import { token } from './state/kept.ts';

/** The file names of those scripts, which the build inserts. */
declare const PARTS: string[];

// If this script has arrived late, the web UI has its own connection already.
const isStarted = document.documentElement.dataset.started !== undefined;
if (!isStarted && (token() || location.hash.includes('token='))) window.early = newSocket();
for (const name of PARTS) {
  const link = document.createElement('link');
  link.rel = 'modulepreload';
  link.href = name;
  document.head.append(link);
}
