// Large things on their way to the server, in pieces.

/** Bytes of a piece, before base64. */
const PIECE = 300_000;

/** One that nobody else has; `randomUUID` is there where the page came by https alone. */
export const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** Sends it up; the name by which a request may use it. */
export async function sendUp(connection: import('./connection.ts').Connection, bytes: Uint8Array) {
  const blob_id = newId();
  for (let offset = 0; offset < bytes.length; offset += PIECE) {
    const part = bytes.subarray(offset, offset + PIECE);
    const data = btoa(Array.from(part, (byte) => String.fromCharCode(byte)).join(''));
    await connection.ask('blob_put', { blob_id, offset, data, last: offset + PIECE >= bytes.length });
  }
  return blob_id;
}
