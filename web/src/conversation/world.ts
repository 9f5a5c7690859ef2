// What the views of a conversation know about what is around it.

import type { OpenFile } from '../text/markdown.tsx';

export type World = {
  /** The project's directory. */
  root: string;
  /** This device's name. */
  me: string;
  /** Whether an approval was answered from this window. */
  isMine: (answer: any) => boolean;
  /** Who gave an answer that is not from this window. */
  called: (answer: any) => string;
  /** The whole record of which a preview came. */
  whole: (blob: string) => Promise<any>;
  /** The bytes of an image that was sent with a prompt; undefined if it is no longer stored. */
  image: (id: string) => Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** What a run has changed; missing where this device may not see it. */
  changes?: (run: string) => Promise<any>;
  revert?: (run: string) => Promise<any>;
  /** Whether there is something to review after a run; missing where this device may not see it. */
  review?: (run: string) => boolean;
  openReview?: () => void;
  openFile?: OpenFile;
  /** The element of a text that was drawn while it was said. */
  adopt?: (text: string) => HTMLElement | undefined;
  /** The keys of what a person has unfolded. */
  unfolded: Set<string>;
};
