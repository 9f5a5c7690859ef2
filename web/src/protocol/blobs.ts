// Sends large data to the server, in pieces.

/** The size of a piece in bytes, before base64 encoding. */
const PIECE = 300_000;

/**
 * A unique id. `crypto.randomUUID` can't be used, because it exists only if the page was loaded over HTTPS or from
 * localhost.
 */
export const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/** Uploads `bytes`. Returns the id of the blob, which requests can use. */
export async function sendUp(connection: import('./connection.ts').Connection, bytes: Uint8Array) {
  const blob_id = newId();
  for (let offset = 0; offset < bytes.length; offset += PIECE) {
    const part = bytes.subarray(offset, offset + PIECE);
    const data = btoa(Array.from(part, (byte) => String.fromCharCode(byte)).join(''));
    await connection.ask('blob_put', { blob_id, offset, data, last: offset + PIECE >= bytes.length });
  }
  return blob_id;
}
