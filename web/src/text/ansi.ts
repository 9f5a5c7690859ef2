// Splits terminal output into parts with CSS classes. Colors and text styles, such as bold and underlined, are kept.
// Other control sequences, for example to move the cursor or to set a title, are dropped. Pure.

/** `style`: CSS classes, or empty. */
type AnsiSpan = { text: string; style: string };

const ESCAPE = '\\x1b';

// The length of a sequence is bounded, so that one without an end is text.
const SEQUENCE = new RegExp(
  [
    `${ESCAPE}\\[([\\d;:]{0,100})([ -/]{0,4}[@-~])`,
    `${ESCAPE}\\[[<-?][0-?]{0,100}[ -/]{0,4}[@-~]`,
    `${ESCAPE}[\\]PX^_][^\\x07\\x1b\\n]{0,2000}(?:\\x07|${ESCAPE}\\\\)`,
    `${ESCAPE}[ -/]{1,4}[0-~]`,
    `${ESCAPE}[0-OQ-WYZ\\\\\`-~]`,
    '\\r',
  ].join('|'),
  'g',
);

const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];

type Look = {
  front: string;
  back: string;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  under: boolean;
  struck: boolean;
  inverse: boolean;
};

const PLAIN: Look = {
  front: '',
  back: '',
  bold: false,
  dim: false,
  italic: false,
  under: false,
  struck: false,
  inverse: false,
};

export const hasAnsi = (text: string) => text.includes('\x1b') || text.includes('\r');

/** The text in parts, without the sequences. */
export function ansi(text: string): AnsiSpan[] {
  const found: AnsiSpan[] = [];
  let look = PLAIN;
  let style = '';
  const add = (part: string) => {
    if (!part) return;
    const last = found[found.length - 1];
    if (last?.style === style) last.text += part;
    else found.push({ text: part, style });
  };
  let at = 0;
  for (const match of text.matchAll(SEQUENCE)) {
    add(text.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[2] === 'm') {
      look = changed(look, match[1]);
      style = styleOf(look);
    } else if (match[0] === '\r' && text[at] !== '\n') add('\n'); // shows each state of a progress bar
  }
  add(text.slice(at));
  return found;
}

/** The text without any sequence. */
export const withoutAnsi = (text: string) =>
  hasAnsi(text)
    ? ansi(text)
        .map((part) => part.text)
        .join('')
    : text;

function changed(look: Look, parameters: string): Look {
  const next = { ...look };
  const codes = parameters.split(/[;:]/).map(Number);
  for (let n = 0; n < codes.length; n++) {
    const code = codes[n];
    if (code === 0) Object.assign(next, PLAIN);
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.under = true;
    else if (code === 7) next.inverse = true;
    else if (code === 9) next.struck = true;
    else if (code === 22) next.bold = next.dim = false;
    else if (code === 23) next.italic = false;
    else if (code === 24) next.under = false;
    else if (code === 27) next.inverse = false;
    else if (code === 29) next.struck = false;
    else if (code >= 30 && code <= 37) next.front = NAMES[code - 30];
    else if (code >= 90 && code <= 97) next.front = NAMES[code - 90];
    else if (code >= 40 && code <= 47) next.back = NAMES[code - 40];
    else if (code >= 100 && code <= 107) next.back = NAMES[code - 100];
    else if (code === 39) next.front = '';
    else if (code === 49) next.back = '';
    else if (code === 38 || code === 48) {
      const name =
        codes[n + 1] === 5 ? indexed(codes[n + 2]) : codes[n + 1] === 2 ? nearest(codes.slice(n + 2, n + 5)) : '';
      n += codes[n + 1] === 5 ? 2 : codes[n + 1] === 2 ? 4 : 1;
      if (code === 38) next.front = name;
      else next.back = name;
    }
  }
  return next;
}

/**
 * The name of the basic color (of eight) that is nearest to one of the 256 colors, or '' if the number is not one of
 * these.
 */
function indexed(index: number) {
  if (!(index >= 0 && index < 256)) return '';
  if (index < 16) return NAMES[index % 8];
  if (index >= 232) return index > 243 ? 'white' : 'black';
  const level = (part: number) => part * 51;
  const cube = index - 16;
  return nearest([level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)]);
}

function nearest([red = 0, green = 0, blue = 0]: number[]) {
  const half = Math.max(red, green, blue) * 0.6;
  if (Math.max(red, green, blue) < 50) return 'black';
  return NAMES[(red >= half ? 1 : 0) + (green >= half ? 2 : 0) + (blue >= half ? 4 : 0)];
}

/** The CSS classes of a look. Black and white become the text color, so that they are legible on any theme. */
function styleOf(look: Look) {
  const isInk = (name: string) => !name || name === 'black' || name === 'white';
  const [front, back] = look.inverse ? [look.back, look.front || 'white'] : [look.front, look.back];
  const found = [];
  if (!isInk(front)) found.push(`ansi-${front}`);
  if (back && (look.inverse || !isInk(back))) found.push(isInk(back) ? 'ansi-on-ink' : `ansi-on-${back}`);
  for (const name of ['bold', 'dim', 'italic', 'under', 'struck'] as const) if (look[name]) found.push(`ansi-${name}`);
  return found.join(' ');
}
