// Builds the web UI: `node build.mjs OUT` builds it from src/ and static/ into the OUT folder, which then contains nothing
// else. `node build.mjs --units OUT FILE…` turns each test FILE into a module that Node.js can run. tools/page.py runs
// these commands.
import { createHash } from 'node:crypto';
import fs from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

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
    entryPoints: [
      { in: 'src/main.tsx', out: 'app' },
      { in: 'src/styles/app.css', out: 'app' },
    ],
    outdir: out,
    // Each module that `import()` names becomes a file beside the others, because the server serves no subfolders.
    splitting: true,
    chunkNames: 'part-[hash]',
    minify: true,
    metafile: true,
  });
  await fs.cp(path.join(HERE, 'static'), out, { recursive: true });
  await fs.writeFile(path.join(out, 'licenses.txt'), await licenses(metafile));
  const parts = firstParts(metafile);
  const later = firstParts(metafile, 'src/conversation/view.tsx').filter((name) => !parts.includes(name));
  const bytes = Object.fromEntries(
    Object.entries(metafile.outputs).map(([name, one]) => [path.basename(name), one.bytes]),
  );
  // A browser fetches six files at a time, so the largest one, which takes longest, comes first.
  later.sort((one, other) => bytes[other] - bytes[one]);
  await index(out, parts);
  await ahead(out, later);
  await worker(out, [...parts, ...later, ...firstParts(metafile, 'src/text/lexer.ts')]);
}

/** The names of the parts that an entry cannot start without. An entry that is a part itself is one of them. */
function firstParts({ outputs }, source = 'src/main.tsx') {
  const entry = Object.keys(outputs).find((name) => outputs[name].entryPoint === source);
  const found = new Set();
  const visit = (name) => {
    for (const { path: other, kind } of outputs[name].imports) {
      if (kind !== 'import-statement' || found.has(other)) continue;
      found.add(other);
      visit(other);
    }
  };
  visit(entry);
  if (path.basename(entry).startsWith('part-')) found.add(entry);
  return [...found].map((name) => path.basename(name));
}

/** Adds preload links to index.html, so that the browser fetches the parts without waiting for app.js. */
async function index(out, parts) {
  const file = path.join(out, 'index.html');
  const text = await fs.readFile(file, 'utf8');
  const links = parts.map((name) => `  <link rel="modulepreload" href="${name}">\n`).join('');
  await fs.writeFile(file, text.replace('  <script type="module"', `${links}  <script type="module"`));
}

/** Builds the script that preloads the parts that are needed after the first view. */
async function ahead(out, parts) {
  await esbuild.build({
    ...COMMON,
    entryPoints: ['src/ahead.ts'],
    outfile: path.join(out, 'ahead.js'),
    format: 'iife',
    minify: true,
    define: { PARTS: JSON.stringify(parts) },
  });
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
