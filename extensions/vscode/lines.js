// The messages on a socket: one JSON object per line, a request or an answer. Pure: bytes in, lines or answers out.
'use strict';

/** The maximum length of a line that is accepted, in bytes. */
const LONGEST_LINE = 8 * 1024 * 1024;

const NO_JSON = -32700;
const NO_SUCH_METHOD = -32601;
const BAD_PARAMS = -32602;
const INTERNAL_ERROR = -32603;

/** A request with missing or invalid parameters. The text names the parameter. */
class BadParams extends Error {}

class LineTooLong extends Error {}

/** Cuts a stream of bytes into lines. */
class Lines {
  constructor(longest = LONGEST_LINE) {
    this._longest = longest;
    /** @type {Buffer[]} */
    this._parts = [];
    this._size = 0;
  }

  /**
   * @param {Buffer} bytes the next bytes of the stream
   * @returns {Generator<Buffer>} the lines that are now complete, without their endings
   * @throws {LineTooLong} after that, `feed` must not be called again
   */
  *feed(bytes) {
    let rest = bytes;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      this._add(rest.subarray(0, end));
      const line = Buffer.concat(this._parts);
      this._parts = [];
      this._size = 0;
      rest = rest.subarray(end + 1);
      yield line;
    }
    this._add(rest);
  }

  /** @param {Buffer} part */
  _add(part) {
    this._size += part.length;
    if (this._size > this._longest) throw new LineTooLong(`a line is longer than ${this._longest} bytes`);
    this._parts.push(part);
  }
}

/**
 * @typedef {Record<string, (params: Params) => object | null | Promise<object | null>>} Methods by their names
 * @typedef {Record<string, any>} Params of a request: whatever the other side has sent, unchecked
 * @typedef {{id: (string|number|null), result?: object | null, error?: {code: number, message: string}}} Answer
 * @typedef {{answer: Answer, method: string}} Answered
 */

/**
 * The answer to one line. Never throws, because the answer contains the error.
 *
 * @param {Buffer} line
 * @param {Methods} methods
 * @returns {Promise<Answered>}
 */
async function respond(line, methods) {
  let question;
  try {
    question = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line));
  } catch {
    return failed(null, '', NO_JSON, 'the line is not JSON');
  }
  if (!isObject(question)) return failed(null, '', NO_JSON, 'the line is not a JSON object');
  const id = ['string', 'number'].includes(typeof question.id) ? question.id : null;
  const { method, params = {} } = question;
  if (typeof method !== 'string' || !Object.hasOwn(methods, method)) {
    return failed(id, '', NO_SUCH_METHOD, `unknown method ${JSON.stringify(method)?.slice(0, 100)}`);
  }
  if (!isObject(params)) return failed(id, method, BAD_PARAMS, 'params: not an object');
  try {
    return { answer: { id, result: await methods[method](params) }, method };
  } catch (error) {
    const code = error instanceof BadParams ? BAD_PARAMS : INTERNAL_ERROR;
    return failed(id, method, code, String(error instanceof Error ? error.message : error));
  }
}

/**
 * @param {string | number | null} id
 * @param {string} method
 * @param {number} code
 * @param {string} message
 */
function failed(id, method, code, message) {
  return { answer: { id, error: { code, message } }, method };
}

/** @param {any} value */
function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

module.exports = { BadParams, Lines, LineTooLong, LONGEST_LINE, INTERNAL_ERROR, respond };
