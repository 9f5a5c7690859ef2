'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');

const { hash } = require('../../../extensions/vscode/blake3');

const PUBLISHED = {
  '': 'af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262',
  hello: 'ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f',
  'hello world': 'd74981efa70a0c880b8d8c1985d075dbcbf679b99a5f9914e5aaf96b831a9e24',
};

for (const [text, expected] of Object.entries(PUBLISHED)) {
  test(`the hash of ${JSON.stringify(text)} is the published one`, () =>
    assert.equal(hash(Buffer.from(text)), expected));
}

// Hashes of "a" repeated this many times, from the Python package blake3 1.0.11. Most lengths are just around the ends
// of blocks, chunks and subtrees.
const OF_LENGTH = {
  64: '472c51290d607f100d2036fdcedd7590bba245e9adeb21364a063b7bb4ca81c7',
  65: 'f345679d9055e53939e92c04ff4f6c9d824b849810d4b598f54baa23336cde99',
  1024: '5a1c9e5d85d9898297037e8e24f69bb0e604a84c91c3b3ef4784a374812900d9',
  1025: 'c59d2e12583df14d951e757a42f1734d355c8c5b1db6b6a33ab2bfabeed40c7d',
  2048: '11654ac17d073b0905429320fee0a34776cb5f10a9767287c70b627fc4f45539',
  2049: '32e4e6d05329fdf8777c2c1f87926ca72210a03abeec282a3b7946783abbd5db',
  4096: 'cf657d3fd42311a258afdf3b5261c256983e3deb2bb38980cb0e754db903d549',
  5000: '09d0d29a5f2dc69dff0809823ca867836c3a3cfb00e12df06d92e3f0f70629e9',
};

for (const [length, expected] of Object.entries(OF_LENGTH)) {
  test(`the hash of ${length} bytes matches another implementation`, () => {
    assert.equal(hash(Buffer.alloc(Number(length), 'a')), expected);
  });
}
