// BLAKE3 (256 bits, unkeyed), as in its specification, for the names of the sockets.
'use strict';

const CHUNK = 1024;
const BLOCK = 64;
const IV = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const CHUNK_START = 1;
const CHUNK_END = 2;
const PARENT = 4;
const ROOT = 8;

/**
 * @param {Uint8Array} bytes
 * @returns {string} 64 lowercase hexadecimal digits
 */
function hash(bytes) {
  const output = Buffer.alloc(32);
  node(bytes, 0, ROOT).forEach((word, at) => output.writeUInt32LE(word >>> 0, 4 * at));
  return output.toString('hex');
}

/**
 * The chaining value of a subtree: one chunk, or a left and a right subtree. The number of chunks in the left one is
 * the largest power of two that leaves at least one byte for the right one.
 *
 * @param {Uint8Array} bytes
 * @param {number} counter
 * @param {number} flags
 * @returns {number[]}
 */
function node(bytes, counter, flags) {
  if (bytes.length <= CHUNK) return chunk(bytes, counter, flags);
  let left = CHUNK;
  while (2 * left < bytes.length) left *= 2;
  const words = [
    ...node(bytes.subarray(0, left), counter, 0),
    ...node(bytes.subarray(left), counter + left / CHUNK, 0),
  ];
  return compress(IV, words, 0, BLOCK, PARENT | flags);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} counter
 * @param {number} flags
 */
function chunk(bytes, counter, flags) {
  let value = IV;
  const last = Math.max(0, Math.ceil(bytes.length / BLOCK) - 1);
  for (let number = 0; number <= last; number++) {
    const block = bytes.subarray(number * BLOCK, (number + 1) * BLOCK);
    const padded = Buffer.alloc(BLOCK);
    padded.set(block);
    const words = Array.from({ length: 16 }, (_, at) => padded.readInt32LE(4 * at));
    const ends = (number === 0 ? CHUNK_START : 0) | (number === last ? CHUNK_END | flags : 0);
    value = compress(value, words, counter, block.length, ends);
  }
  return value;
}

/**
 * @param {number[]} value
 * @param {number[]} words
 * @param {number} counter
 * @param {number} length
 * @param {number} flags
 */
function compress(value, words, counter, length, flags) {
  const high = Math.floor(counter / 2 ** 32) | 0;
  const state = [...value, ...IV.slice(0, 4), counter | 0, high, length, flags];
  let message = words;
  for (let round = 0; round < 7; round++) {
    mix(state, 0, 4, 8, 12, message[0], message[1]);
    mix(state, 1, 5, 9, 13, message[2], message[3]);
    mix(state, 2, 6, 10, 14, message[4], message[5]);
    mix(state, 3, 7, 11, 15, message[6], message[7]);
    mix(state, 0, 5, 10, 15, message[8], message[9]);
    mix(state, 1, 6, 11, 12, message[10], message[11]);
    mix(state, 2, 7, 8, 13, message[12], message[13]);
    mix(state, 3, 4, 9, 14, message[14], message[15]);
    message = PERMUTATION.map((from) => message[from]);
  }
  return state.slice(0, 8).map((word, at) => word ^ state[at + 8]);
}

/**
 * @param {number[]} state
 * @param {number} a
 * @param {number} b
 * @param {number} c
 * @param {number} d
 * @param {number} x
 * @param {number} y
 */
function mix(state, a, b, c, d, x, y) {
  state[a] = (state[a] + state[b] + x) | 0;
  state[d] = rotate(state[d] ^ state[a], 16);
  state[c] = (state[c] + state[d]) | 0;
  state[b] = rotate(state[b] ^ state[c], 12);
  state[a] = (state[a] + state[b] + y) | 0;
  state[d] = rotate(state[d] ^ state[a], 8);
  state[c] = (state[c] + state[d]) | 0;
  state[b] = rotate(state[b] ^ state[c], 7);
}

/**
 * @param {number} word
 * @param {number} bits
 */
function rotate(word, bits) {
  return (word >>> bits) | (word << (32 - bits));
}

module.exports = { hash };
