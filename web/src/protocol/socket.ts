// The socket to the server.

declare global {
  interface Window {
    /** A socket that was opened while the web UI was loading. */
    early?: WebSocket;
  }
}

export function newSocket() {
  return new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws`);
}

/** Returns the socket that was opened while the web UI was loading, but only once, or a new one. */
export function takeSocket() {
  const { early } = window;
  window.early = undefined;
  // The server closes a socket on which it does not receive a token in time.
  return early && early.readyState <= WebSocket.OPEN ? early : newSocket();
}
