// Converts the guard's edits, in whole lines, to VS Code's replacements of ranges. Pure.
'use strict';

const { BadParams } = require('./lines');

/**
 * @typedef {{start: number, end: number, lines: string[]}} Edit lines, 0-based, `end` exclusive
 * @typedef {{from: [number, number], to: [number, number], text: string}} Replacement `from`, `to`: [line, character]
 */

/**
 * @param {*} edits as received in a request
 * @param {number} count the number of the document's lines, as counted by `countLines`
 * @returns {Edit[]}
 * @throws {BadParams}
 */
function checked(edits, count) {
  if (!Array.isArray(edits)) throw new BadParams('edits: not a list');
  let before = 0;
  for (const [number, edit] of edits.entries()) {
    const { start, end, lines } = edit ?? {};
    const isPlaced =
      Number.isInteger(start) && Number.isInteger(end) && before <= start && start <= end && end <= count;
    if (!isPlaced)
      throw new BadParams(`edits[${number}]: start and end must be integers in ascending order, from 0 to ${count}`);
    const isText = Array.isArray(lines) && lines.every((line) => typeof line === 'string' && !line.includes('\n'));
    if (!isText) throw new BadParams(`edits[${number}].lines: not a list of lines`);
    before = end;
  }
  return edits;
}

/**
 * @param {Edit[]} edits in order
 * @param {number} lineCount the document's lines as VS Code counts them: a line ending at the end of the text begins
 *   one more, empty line
 * @param {(line: number) => number} lengthOf characters of a line
 * @param {string} eol the document's line ending
 * @returns {Replacement[]}
 */
function replacements(edits, lineCount, lengthOf, eol) {
  return joined(edits).map(({ start, end, lines }) => {
    if (end < lineCount) return { from: [start, 0], to: [end, 0], text: lines.map((line) => line + eol).join('') };
    /** @type {[number, number]} */
    const to = [lineCount - 1, lengthOf(lineCount - 1)]; // no line ending follows, so the one before the edit is used
    if (start === 0) return { from: [0, 0], to, text: lines.join(eol) };
    return { from: [start - 1, lengthOf(start - 1)], to, text: lines.map((line) => eol + line).join('') };
  });
}

/**
 * Joins edits that touch, because at the end of a document, their replacements would overlap, and VS Code does not
 * accept overlapping ranges.
 *
 * @param {Edit[]} edits
 */
function joined(edits) {
  /** @type {Edit[]} */
  const result = [];
  for (const edit of edits) {
    const last = result.at(-1);
    if (last?.end !== edit.start) result.push(edit);
    else result[result.length - 1] = { start: last.start, end: edit.end, lines: [...last.lines, ...edit.lines] };
  }
  return result;
}

module.exports = { checked, replacements };
