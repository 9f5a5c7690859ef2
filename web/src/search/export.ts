// Exports a session as a file.

import type { Client } from '../protocol/client.ts';
import type { SessionPiece } from '../protocol/messages.ts';

/** Fetches a session and hands it to the browser as a download. */
export async function exportSession(client: Client, project: string, session: string, format: 'markdown' | 'jsonl') {
  const parts: string[] = [];
  let piece: SessionPiece;
  let after: string | undefined;
  do {
    const data = { session_id: session, format, after };
    piece = (await client.connection.ask('session_export', data, { project })).data;
    parts.push(piece.text);
    after = piece.next ?? undefined;
  } while (after !== undefined);
  download(piece.name, new Blob(parts, { type: piece.media_type }));
}

function download(name: string, content: Blob) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
