// The output of a tool: its text with the colors of a terminal, and its images.

import { useEffect, useMemo, useState } from 'preact/hooks';

import { type Image, IMAGES, imagesIn, resultText, type SentFile, type SentImage } from '../state/conversation.ts';
import { ansi, hasAnsi, withoutAnsi } from '../text/ansi.ts';
import { Colored, useColors } from '../text/code.tsx';
import { Copy } from '../text/copy.tsx';
import { languageOf } from '../text/highlight.ts';
import { cutAt, Parts, scrolls } from '../text/plain.tsx';
import { size, textSize } from '../ui/dom.ts';
import { Button, Icon, Text } from '../ui/elements.tsx';
import type { World } from './world.ts';

/** Characters that are shown before the user asks for more. `COLORED`: the maximum for text that is shown in color. */
const SHOWN = 4_000;
const COLORED = 100_000;

/** The output of a program. */
export function Output({ text, label = 'Copy output' }: { text: string; label?: string }) {
  const [isWhole, setWhole] = useState(false);
  if (!text.trim()) return <p class="hint">No output</p>;
  const cut = isWhole ? text.length : cutAt(text, SHOWN);
  const shown = text.slice(0, cut);
  return (
    <div class="output">
      <pre class="result" ref={scrolls}>
        {hasAnsi(shown) && shown.length <= COLORED ? <Ansi text={shown} /> : <Parts text={withoutAnsi(shown)} code />}
      </pre>
      <Copy text={text} label={label} />
      {cut < text.length && (
        <Button label={`Show all (${textSize(text)})`} class="quiet" onClick={() => setWhole(true)} />
      )}
    </div>
  );
}

function Ansi({ text }: { text: string }) {
  return (
    <>
      {ansi(text).map((part, index) => (
        <span key={index} class={part.style || undefined}>
          <Text code>{part.text}</Text>
        </span>
      ))}
    </>
  );
}

const NUMBERED = /^ {0,6}(\d{1,7})(?:\t|→)(.*)$/;

/** A file's lines and their numbers, from the text that a tool returned, or undefined if it has another format. */
export function numberedLines(text: string): { numbers: number[]; code: string } | undefined {
  const lines = text.replace(/\n$/, '').split('\n');
  const numbers: number[] = [];
  const code: string[] = [];
  for (const line of lines) {
    const found = NUMBERED.exec(line);
    if (!found) break;
    numbers.push(Number(found[1]));
    code.push(found[2]);
  }
  // Up to 12 unnumbered lines may follow: the tool's notes to the agent.
  if (!numbers.length || lines.length - numbers.length > 12) return undefined;
  return { numbers, code: code.join('\n') };
}

/** The number of lines that are shown before the user asks for more. */
const LINES = 200;

export function FileLines({ path, numbers, code }: { path: string; numbers: number[]; code: string }) {
  const [isWhole, setWhole] = useState(false);
  const colors = useColors(code, languageOf(path));
  const lines = code.split('\n');
  const shown = isWhole ? lines.length : Math.min(LINES, lines.length);
  return (
    <div class="output">
      <div class="file-lines" ref={scrolls}>
        <table>
          <tbody>
            {lines.slice(0, shown).map((line, index) => (
              <tr key={index}>
                <td class="number" data-number={numbers[index]} />
                <td class="line">
                  <code>{colors?.[index] ? <Colored spans={colors[index]} /> : <Text code>{line}</Text>}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Copy text={code} label="Copy lines" />
      {shown < lines.length && (
        <Button label={`Show all ${lines.length} lines`} class="quiet" onClick={() => setWhole(true)} />
      )}
    </div>
  );
}

/**
 * The images in a message, from the bytes that it contains, so that nothing is fetched. Images of which only a preview
 * was sent are loaded with a button.
 */
export function Images({ images, truncated, world }: { images: Image[]; truncated: any; world: World }) {
  const [whole, setWhole] = useState<Image[]>([]);
  const [isBusy, setBusy] = useState(false);
  const shown = truncated ? images.map((one) => wholeOf(one, whole)) : images;
  const bytes = useMemo(() => shown.map((one) => one && decoded(one.data)), [images, truncated, whole]);
  const missing = shown.filter((one) => !one).length;
  const load = async () => {
    setBusy(true);
    const record = await world.whole(truncated.blob_id).catch(() => undefined);
    setBusy(false);
    if (record) setWhole(imagesIn(record.message));
  };
  return (
    <>
      {missing < images.length && (
        <div class="images">
          {images.map(({ type }, index) => (
            <Picture key={index} type={type} bytes={bytes[index]} />
          ))}
        </div>
      )}
      {missing > 0 && (
        <div class="more">
          <Button
            label={`Show ${missing === 1 ? 'image' : `${missing} images`} (${size(truncated.bytes)})`}
            class="quiet"
            disabled={isBusy}
            onClick={() => void load()}
          />
        </div>
      )}
    </>
  );
}

/** What the server adds to a text in a preview that it has cut. */
const CUT = '…';

/** The whole image, or undefined if `image` is the beginning of one that is not in `whole`. */
const wholeOf = (image: Image, whole: Image[]) =>
  image.data.endsWith(CUT)
    ? whole.find(({ type, data }) => type === image.type && data.startsWith(image.data.slice(0, -CUT.length)))
    : image;

function decoded(data: string) {
  try {
    return Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  } catch (error) {
    console.warn(error);
    return undefined;
  }
}

type Sent = { images: SentImage[]; files: SentFile[]; names: string[]; world: World };

/** The attachments of a prompt: images that are still stored, the names of everything else, the sizes of `files`. */
export function SentFiles({ images, files, names, world }: Sent) {
  const [found, setFound] = useState<Map<string, Uint8Array<ArrayBuffer>>>(new Map());
  const wanted = images.filter((image) => IMAGES.includes(image.media_type));
  const ids = wanted.map(({ id }) => id).join();
  useEffect(() => {
    let isShown = true;
    for (const { id } of wanted)
      void world.image(id).then((bytes) => {
        if (bytes && isShown) setFound((before) => new Map(before).set(id, bytes));
      });
    return () => {
      isShown = false;
    };
  }, [ids]);
  const shown = wanted.filter(({ id }) => found.has(id));
  const rest = [...names];
  for (const { name, media_type } of shown) {
    const at = rest.indexOf(name || media_type);
    if (at >= 0) rest.splice(at, 1);
  }
  const sized = [...files];
  const labels = rest.map((name) => {
    const at = sized.findIndex((file) => file.name === name);
    return { name, bytes: at >= 0 ? sized.splice(at, 1)[0].bytes : undefined };
  });
  return (
    <>
      {shown.length > 0 && (
        <div class="images">
          {shown.map(({ id, media_type, name }) => (
            <Picture key={id} type={media_type} bytes={found.get(id)} name={name} />
          ))}
        </div>
      )}
      {labels.length > 0 && (
        <p class="attached">
          {labels.map(({ name, bytes }, index) => (
            <span key={index} class="tag">
              <Icon name="file" />
              <Text line>{name}</Text>
              {bytes !== undefined && <small>{size(bytes)}</small>}
            </span>
          ))}
        </p>
      )}
    </>
  );
}

function Picture({ type, bytes, name }: { type: string; bytes?: Uint8Array<ArrayBuffer>; name?: string }) {
  const [url, setUrl] = useState('');
  const [isLarge, setLarge] = useState(false);
  useEffect(() => {
    const made = bytes ? URL.createObjectURL(new Blob([bytes], { type })) : '';
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [type, bytes]);
  if (!url) return null;
  return (
    <button
      type="button"
      class={`picture ${isLarge ? 'large' : ''}`}
      aria-label={isLarge ? 'Shrink image' : 'Enlarge image'}
      title={name}
      onClick={() => setLarge(!isLarge)}
    >
      <img src={url} alt="" />
    </button>
  );
}

/** A button that loads a whole record if only a preview of it was sent. */
export function More({ truncated, world }: { truncated: any; world: World }) {
  const [whole, setWhole] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  if (whole !== undefined)
    return (
      <pre class="result whole" ref={scrolls}>
        <Parts text={whole} />
      </pre>
    );
  const show = async () => {
    setBusy(true);
    const record = await world.whole(truncated.blob_id).catch(() => undefined);
    setBusy(false);
    if (record) setWhole(wholeText(record.message));
  };
  return (
    <div class="more">
      <Button
        label={`Show all (${size(truncated.bytes)})`}
        class="quiet"
        disabled={isBusy}
        onClick={() => void show()}
      />
    </div>
  );
}

/** The whole content of a record, as text. Its images are shown elsewhere. */
function wholeText(message: any) {
  const content = message?.message?.content ?? message?.message?.prompt;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return JSON.stringify(message, null, 2);
  return content
    .filter((block) => block.type !== 'image')
    .map(
      (block) =>
        block.text ??
        (block.type === 'tool_result' ? resultText(block.content) : JSON.stringify(block.input ?? block, null, 2)),
    )
    .join('\n\n');
}
