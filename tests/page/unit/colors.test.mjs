import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

// The path is from the directory of the built tests.
const CSS = readFileSync(new URL('../../web/src/styles/base.css', import.meta.url), 'utf8');

/** The light and the dark value of a color. */
function valuesOf(name) {
  const [, light, dark] = new RegExp(`--${name}: light-dark\\((#\\w{6}), (#\\w{6})\\)`).exec(CSS);
  return [light, dark];
}

/** The relative luminance, as WCAG 2 defines it. */
function luminance(color) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

test('code can be read in all parts of a diff, in both themes', () => {
  const inks = ['ink', 'accent', 'code-word', 'code-string', 'code-number', 'code-comment'];
  const papers = ['sheet', 'sunken', 'yes-wash', 'yes-mark', 'no-wash', 'no-mark'];
  const poor = inks.flatMap((ink) =>
    papers.flatMap((paper) =>
      ['light', 'dark']
        .filter((_, theme) => contrast(valuesOf(ink)[theme], valuesOf(paper)[theme]) < 4.5)
        .map((theme) => `${ink} on ${paper} (${theme})`),
    ),
  );
  assert.deepEqual(poor, []);
});
