// The answer that is streaming. Finished blocks are rendered once. When the answer is complete, the element that
// contains it moves into the conversation, unless the text is too long to be shown entirely as Markdown.

import { render } from 'preact';

import { GrowingBlocks } from '../text/blocks.ts';
import { Blocks, type OpenFile } from '../text/markdown.tsx';
import { MARKDOWN } from '../text/message.tsx';
import { cutAt } from '../text/plain.tsx';
import { Text } from '../ui/elements.tsx';

/** A text with more characters than this is drawn at most ten times per second. */
const LONG = 4_000;
const PAUSE = 100; // ms

/**
 * The maximum number of characters at the end of a text that are shown as plain text, if the text is too long to be
 * drawn entirely as Markdown.
 */
const TAIL = 4_000;

export class Live {
  /** Contains what has been streamed so far. */
  element: HTMLElement;
  private _host: HTMLElement;
  private _blocks = new GrowingBlocks();
  private _text = '';
  private _drawnAt = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _openFile: OpenFile | undefined;

  constructor(element: HTMLElement, openFile?: OpenFile) {
    this.element = element;
    this._openFile = openFile;
    this._host = this._fresh();
  }

  get text() {
    return this._text;
  }

  update(text: string) {
    if (text === this._text && this._host.childNodes.length) return;
    this._text = text;
    if (this._timer) return;
    const wait = text.length > LONG ? this._drawnAt + PAUSE - performance.now() : 0;
    if (wait > 0) this._timer = setTimeout(() => this._draw(), wait);
    else this._draw();
  }

  /**
   * The element in which this text was streamed, for reuse, or undefined if another text or none was streamed, if
   * rendering failed, or if the text is too long to be drawn entirely as Markdown.
   */
  take(text: string): HTMLElement | undefined {
    // The last part may arrive together with the complete message.
    if (!this._text || !text.startsWith(this._text) || text.length > MARKDOWN) return undefined;
    this._text = text;
    const isDrawn = this._draw(false);
    const host = this._host;
    this._host = this._fresh();
    return isDrawn ? host : undefined;
  }

  /** Removes the streaming answer. */
  clear() {
    clearTimeout(this._timer);
    this._timer = undefined;
    this._text = '';
    this._blocks = new GrowingBlocks();
    render(null, this._host);
  }

  private _fresh() {
    clearTimeout(this._timer);
    this._timer = undefined;
    this._text = '';
    this._blocks = new GrowingBlocks();
    const host = document.createElement('div');
    host.className = 'markdown';
    this.element.replaceChildren(host);
    return host;
  }

  /** @returns whether it is drawn */
  private _draw(live = true): boolean {
    clearTimeout(this._timer);
    this._timer = undefined;
    const text = this._text;
    const cut = cutAt(text, MARKDOWN);
    // With this class, the browser does not lay out blocks that are out of view, even when the text becomes a message.
    this._host.classList.toggle('long', text.length > LONG);
    this._drawnAt = performance.now();
    try {
      this._blocks.update(text.slice(0, cut));
      render(
        <>
          <Blocks blocks={this._blocks.blocks} openFile={this._openFile} live={live} />
          {cut < text.length && (
            <div class="words">
              <Text>{`…${text.slice(Math.max(cut, text.length - TAIL))}`}</Text>
            </div>
          )}
        </>,
        this._host,
      );
      return true;
    } catch (error) {
      console.error(error);
      this._host.textContent = '';
      return false;
    }
  }
}
