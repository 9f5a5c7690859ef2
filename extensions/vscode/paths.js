// Which file a path means. Two names mean the same file if their canonical names or their inodes are equal.
'use strict';

const fs = require('node:fs/promises');
const path = require('node:path');

/** The maximum number of links that are followed, because links can form a loop. */
const MOST_LINKS = 40;

/**
 * @typedef {Object} Place
 * @property {string} name the canonical name; for a file that does not exist, the canonical name that it would get if
 * it were created: a link to a missing file is followed @property {string | null} inode device and inode of a file that
 * exists
 *
 * @typedef {(uri: import('vscode').Uri) => string | null} PathOf the path on this machine that a URI names
 */

/**
 * @param {string} file absolute
 * @returns {Promise<Place>}
 */
async function locate(file) {
  const missing = [];
  let at = file;
  for (let links = 0; ; ) {
    try {
      const name = path.join(await fs.realpath(at), ...missing);
      return { name, inode: missing.length ? null : await inodeOf(name) };
    } catch {
      const target = links < MOST_LINKS ? await targetOf(at) : null;
      if (target !== null) {
        links += 1;
        at = target;
      } else {
        if (path.dirname(at) === at) return { name: file, inode: null };
        missing.unshift(path.basename(at));
        at = path.dirname(at);
      }
    }
  }
}

/**
 * The path that a link leads to, or null if `file` is not a link, does not exist or can't be read.
 *
 * @param {string} file
 */
async function targetOf(file) {
  try {
    const target = await fs.readlink(file);
    return path.resolve(await fs.realpath(path.dirname(file)), target);
  } catch {
    return null;
  }
}

/** @param {string} file */
async function inodeOf(file) {
  const { dev, ino } = await fs.stat(file, { bigint: true });
  return `${dev}:${ino}`;
}

/**
 * @param {Place} one
 * @param {Place} other
 */
function isSame(one, other) {
  return one.name === other.name || (one.inode !== null && one.inode === other.inode);
}

/**
 * A value that changes whenever the file does (its inode, size and modification time), or null if the file does not
 * exist or can't be examined.
 *
 * @param {string} file
 * @returns {Promise<string | null>}
 */
async function stampOf(file) {
  try {
    const { ino, size, mtimeNs } = await fs.stat(file, { bigint: true });
    return `${ino}:${size}:${mtimeNs}`;
  } catch {
    return null;
  }
}

/**
 * The path on this machine that a URI names, or null.
 *
 * @param {{scheme: string, fsPath: string, path: string}} uri
 * @param {boolean} onRemote whether this extension host runs on the remote machine of its window, if the window has one
 */
function pathOf(uri, onRemote) {
  if (uri.scheme === 'file') return uri.fsPath;
  return uri.scheme === 'vscode-remote' && onRemote ? uri.path : null;
}

/**
 * The code of a system error, such as "ENOENT", or undefined for other errors.
 *
 * @param {unknown} error
 */
function codeOf(error) {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

module.exports = { codeOf, isSame, locate, pathOf, stampOf };
