// Builds the web UI: `node build.mjs OUT` builds it from src/ and static/ into the OUT folder, which then contains nothing
// else. `node build.mjs --units OUT FILE…` turns each test FILE into a module that Node.js can run. tools/page.py runs
// these commands.
import { createHash } from 'node:crypto';
import fs from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import zlib from 'node:zlib';

import * as esbuild from 'esbuild-wasm';

const HERE = path.dirname(fileURLToPath(import.meta.url));

const COMMON = {
  absWorkingDir: HERE,
  bundle: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  logLevel: 'warning',
};

async function page(out) {
  await fs.rm(out, { recursive: true, force: true });
  await fs.mkdir(out, { recursive: true });
  const { metafile } = await esbuild.build({
    ...COMMON,
    entryPoints: ['src/main.tsx', 'src/styles/app.css'],
    outdir: out,
    // Each module that `import()` names becomes a file beside the others, because the server serves no subfolders.
    splitting: true,
    entryNames: 'part-[hash]',
    chunkNames: 'part-[hash]',
    plugins: [oneFirstPart],
    minify: true,
    metafile: true,
  });
  await fs.cp(path.join(HERE, 'static'), out, { recursive: true });
  await fs.writeFile(path.join(out, 'licenses.txt'), await licenses(metafile));
  const [script, ...more] = importsOf(metafile, outputOf(metafile, 'src/main.tsx'));
  if (!script || more.length > 0) throw new Error(`the first view needs several scripts: ${[script, ...more]}`);
  // All that this file does is import the script.
  await fs.rm(path.join(out, path.basename(outputOf(metafile, 'src/main.tsx'))));
  const view = outputOf(metafile, 'src/conversation/view.tsx');
  const later = [view, ...importsOf(metafile, view)].filter((name) => name !== script);
  // A browser fetches six files at a time, so the largest one, which takes longest, comes first.
  later.sort((one, other) => metafile.outputs[other].bytes - metafile.outputs[one].bytes);
  const names = (paths) => paths.map((name) => path.basename(name));
  const lexer = outputOf(metafile, 'src/text/lexer.ts');
  const style = outputOf(metafile, 'src/styles/app.css');
  const first = {
    'ahead.js': await ahead(out, names(later)),
    'main.js': path.basename(script),
    'old.js': await old(out),
  };
  await index(out, first, await inlined(out, path.basename(style)));
  await worker(out, [...Object.values(first), ...names([...later, lexer])]);
  await compressed(out);
}

/**
 * Makes one file of all scripts of the first view. Otherwise, a module that a part also needs would be in another file,
 * and a browser fetches only six files at a time. A part can't be loaded without the first view, so it may import it.
 */
const oneFirstPart = {
  name: 'one first part',
  setup({ onResolve, onLoad }) {
    const parts = new Set();
    onResolve({ filter: /^\.{1,2}\// }, ({ path: name, resolveDir, kind }) => {
      if (kind === 'dynamic-import') parts.add(path.resolve(resolveDir, name));
      return undefined;
    });
    onLoad({ filter: /\.tsx?$/ }, async ({ path: file }) => {
      if (!parts.has(file)) return undefined;
      const main = JSON.stringify(path.join(HERE, 'src/main.tsx'));
      return { contents: `${await fs.readFile(file, 'utf8')}\nimport ${main};\n`, loader: path.extname(file).slice(1) };
    });
  },
};

/** The path of the file that is built from a source. */
function outputOf({ outputs }, source) {
  return Object.keys(outputs).find((name) => outputs[name].entryPoint === source);
}

/** The paths of the files that a file can't start without. */
function importsOf({ outputs }, file) {
  const found = new Set();
  const visit = (name) => {
    for (const { path: other, kind } of outputs[name].imports) {
      if (kind !== 'import-statement' || found.has(other)) continue;
      found.add(other);
      visit(other);
    }
  };
  visit(file);
  return [...found];
}

/** Removes the style sheet's file and returns its content, to be put into index.html. */
async function inlined(out, name) {
  const file = path.join(out, name);
  const text = (await fs.readFile(file, 'utf8')).trim();
  if (text.includes('<')) throw new Error('the style sheet contains "<", which could end its element in index.html');
  await fs.rm(file);
  return text;
}

/**
 * Replaces the names of files in index.html by those of the built files, and `/* app.css *\/` by the style sheet. With
 * that, the first paint waits for one file only, and a slow connection is busy while the scripts are being requested.
 */
async function index(out, names, style) {
  const file = path.join(out, 'index.html');
  let text = await fs.readFile(file, 'utf8');
  const place = '/* app.css */';
  if (!text.includes(place)) throw new Error(`index.html has no ${place}`);
  text = text.replace(place, () => style);
  for (const [name, built] of Object.entries(names)) {
    if (!text.includes(`"${name}"`)) throw new Error(`index.html does not name ${name}`);
    text = text.replaceAll(`"${name}"`, `"${built}"`);
  }
  await fs.writeFile(file, text);
}

/** Builds the script that starts what is needed after the first view. Returns its name. */
async function ahead(out, parts) {
  const { metafile } = await esbuild.build({
    ...COMMON,
    entryPoints: ['src/ahead.ts'],
    outdir: out,
    entryNames: 'part-[hash]',
    format: 'iife',
    minify: true,
    metafile: true,
    define: { PARTS: JSON.stringify(parts) },
  });
  return path.basename(outputOf(metafile, 'src/ahead.ts'));
}

/** Names the script for old browsers as a part, so that later visits read it from the cache. Returns its name. */
async function old(out) {
  const file = path.join(out, 'old.js');
  const hash = createHash('sha256').update(await fs.readFile(file));
  const name = `part-${hash.digest('hex').slice(0, 8).toUpperCase()}.js`;
  await fs.rename(file, path.join(out, name));
  return name;
}

/** Builds the service worker, which caches the first parts of the web UI on the first visit, others after their use. */
async function worker(out, parts) {
  const names = (await fs.readdir(out)).sort();
  const hash = createHash('sha256');
  for (const name of names) hash.update(name).update(await fs.readFile(path.join(out, name)));
  const isFirst = (name) =>
    !['index.html', 'licenses.txt'].includes(name) && (!name.startsWith('part-') || parts.includes(name));
  const files = names.filter(isFirst);
  await esbuild.build({
    ...COMMON,
    entryPoints: ['worker/worker.ts'],
    outfile: path.join(out, 'sw.js'),
    format: 'iife',
    minify: true,
    define: { FILES: JSON.stringify(['./', ...files]), VERSION: JSON.stringify(hash.digest('hex').slice(0, 16)) },
  });
}

/** Adds each file's Brotli version, NAME.br, if it is smaller. The server has no Brotli of its own. */
async function compressed(out) {
  const pack = promisify(zlib.brotliCompress);
  const add = async (name) => {
    const body = await fs.readFile(path.join(out, name));
    const packed = await pack(body, { params: { [zlib.constants.BROTLI_PARAM_SIZE_HINT]: body.length } });
    if (packed.length < body.length) await fs.writeFile(path.join(out, `${name}.br`), packed);
  };
  await Promise.all((await fs.readdir(out)).map(add));
}

/** Licenses that a program under the MIT license may contain. */
const ALLOWED = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT'];

/** The license texts that the packages in the web UI require to be shown. */
async function licenses({ inputs }) {
  const names = new Set();
  for (const input of Object.keys(inputs)) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) names.add(found[1]);
  }
  const parts = [];
  for (const name of [...names].sort()) {
    const folder = path.join(HERE, 'node_modules', name);
    const { version, license } = JSON.parse(await fs.readFile(path.join(folder, 'package.json'), 'utf8'));
    const file = (await fs.readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
    if (!ALLOWED.includes(license))
      throw new Error(`${name} ${version} has the license ${license}, which is not in the list`);
    if (!file) throw new Error(`${name} ${version} (${license}) has no file with its license`);
    parts.push(`${name} ${version} (${license})\n\n${(await fs.readFile(path.join(folder, file), 'utf8')).trim()}\n`);
  }
  return `The web UI contains these packages.\n\n${parts.join(`\n${'-'.repeat(80)}\n\n`)}`;
}

async function units(out, files) {
  await fs.rm(out, { recursive: true, force: true });
  await esbuild.build({
    ...COMMON,
    entryPoints: files.map((file) => path.resolve(file)),
    outdir: out,
    outExtension: { '.js': '.mjs' },
    platform: 'node',
    nodePaths: [path.join(HERE, 'node_modules')],
    sourcemap: 'inline',
  });
}

const [first, ...rest] = process.argv.slice(2);
if (first === '--units') await units(path.resolve(rest[0]), rest.slice(1));
else if (first) await page(path.resolve(first));
else throw new Error('usage: node build.mjs OUT, or node build.mjs --units OUT FILE…');
await esbuild.stop(); // its process would outlive this one for a moment
