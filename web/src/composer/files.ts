// Files that go with a message: pasted, dropped or chosen. An image that is too large for a model is made smaller here.

import { IMAGES } from '../state/conversation.ts';
import { wellFormed } from '../text/harmless.ts';
import { size } from '../ui/dom.ts';

/** The maximum number of files in one message. */
export const MOST = 10;

/** The maximum size of an image in bytes, and of its longer side in pixels. More would not help a model. */
const LARGEST_IMAGE = 4_000_000;
const LONGEST_SIDE = 2000;

/** The maximum size of any file, in bytes: a round number just below the server's limit for a blob, 33,554,432. */
const LARGEST = 33_500_000;

/** The maximum size of a text that can become a part of the message, in bytes. */
const LARGEST_TEXT = 1_000_000;

/** The maximum length of a name that the server accepts, in characters. */
const LONGEST_NAME = 200;

/** `url`: the address of an image's preview. `text`: the content of a text file. */
export type Attached = { blob: Blob; name: string; url?: string; text?: string };

/** `images`: whether the agent sees images in a message. `files`: whether it gets other files, or only text files. */
export type Accepts = { images: boolean; files: boolean };

/** Prepares a file for a message. The server decides whether the agent gets its content or its path. Throws an error
 * whose message is for the user. */
export async function attach(file: File, { images, files }: Accepts): Promise<Attached> {
  const name = shortened(file.name) || (file.type.startsWith('image/') ? 'image' : 'file');
  await file
    .slice(0, 1)
    .arrayBuffer()
    .catch(() => {
      throw unreadable(name, files);
    });
  if (!file.size) throw new Error(`Can’t attach ${name}: it is empty.`);
  if (IMAGES.includes(file.type) && images) {
    const blob = await fitting(file).catch(() => undefined);
    if (blob) return { blob, name, url: URL.createObjectURL(blob) };
  }
  const most = files ? LARGEST : LARGEST_TEXT;
  if (file.size > most) throw tooLarge(name, file.size, most);
  const text = file.size > LARGEST_TEXT ? undefined : textOf(await file.arrayBuffer());
  if (text !== undefined) return { blob: new Blob([text], { type: 'text/plain' }), name, text };
  if (!files) throw new Error(`Can’t attach ${name}: a terminal session accepts only text files.`);
  // An image that can't be decoded is sent like any other file, because the agent's API would refuse it as an image.
  const type = IMAGES.includes(file.type) && images ? '' : file.type;
  return { blob: file.slice(0, file.size, type), name };
}

/** The error for a directory. `files`: as in `Accepts`. */
export const notAFile = (name: string, files: boolean) =>
  new Error(`Can’t attach ${name}: it is a folder. Attach ${insteadOfFolder(files)}.`);

/** The error for something that the browser can't read. Not every browser reports whether it is a directory. */
const unreadable = (name: string, files: boolean) =>
  new Error(`Can’t attach ${name}: the browser can’t read it. If it is a folder, attach ${insteadOfFolder(files)}.`);

const insteadOfFolder = (files: boolean) => (files ? 'its files, or a .zip file that contains them' : 'its text files');

/** Cuts the middle out of a long name, so that its extension stays. */
const shortened = (name: string) =>
  name.length > LONGEST_NAME ? wellFormed(`${name.slice(0, 150)}…${name.slice(-40)}`) : name;

/** The message with the text files in it, for agents that don't receive files. */
export function withTexts(prompt: string, files: Attached[]) {
  const blocks = files.map(({ name, text = '' }) => {
    const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
    const fence = '`'.repeat(longest + 1);
    return `${name}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}`;
  });
  return [prompt, ...blocks].filter(Boolean).join('\n\n');
}

const tooLarge = (name: string, bytes: number, most: number) =>
  new Error(`Can’t attach ${name}: it is too large (${size(bytes)}). The limit is ${size(most)}.`);

function textOf(bytes: ArrayBuffer) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  }
}

/** The image if it is small enough for an agent, otherwise a smaller copy. Throws if it can't be decoded or encoded. */
async function fitting(file: File): Promise<Blob> {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  if (scale === 1 && file.size <= LARGEST_IMAGE) return file;
  const canvas = document.createElement('canvas');
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext('2d')?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const made = (type: string) =>
    new Promise<Blob>((done, failed) =>
      canvas.toBlob(
        (blob) => (blob ? done(blob) : failed(new Error('The image could not be made smaller.'))),
        type,
        0.9,
      ),
    );
  const same = file.type === 'image/png' ? await made('image/png') : undefined;
  return same && same.size <= LARGEST_IMAGE ? same : await made('image/jpeg');
}
