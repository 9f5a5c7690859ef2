// The functions and data outside a conversation that its views can use.

import type { OpenFile } from '../text/markdown.tsx';

export type World = {
  /** The project's directory. */
  root: string;
  /** The name to show for the client that did something, or undefined if it was this browser. */
  other: (act: any) => string | undefined;
  /** Whether an approval request was answered from this browser. */
  isOwn: (answer: any) => boolean;
  /** Who gave an answer that is not from this window. */
  called: (answer: any) => string;
  /** Fetches the whole record of a message that was received only as a preview. */
  whole: (blob: string) => Promise<any>;
  /** The bytes of an image that was sent with a prompt, or undefined if it is no longer stored. */
  image: (id: string) => Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** Requests what a run changed. Undefined in a terminal or earlier session, or if this device may not see it. */
  changes?: (run: string) => Promise<any>;
  revert?: (run: string) => Promise<any>;
  /**
   * Whether there is something to review and the run is the latest one. Undefined in an earlier session, or if this
   * device may not see reviews.
   */
  review?: (run: string) => boolean;
  openReview?: () => void;
  openFile?: OpenFile;
  /** Returns the element in which a text was drawn while it was streamed, or undefined if it can't be reused. */
  adopt?: (text: string) => HTMLElement | undefined;
  /** The keys of what the user has unfolded. */
  unfolded: Set<string>;
};
