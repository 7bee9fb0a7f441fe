// Bundles the extension into dist/. Two files: what runs for every Python file is small, the language client is loaded
// only when a file mentions Triton.

import { build } from 'esbuild';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  format: 'cjs',
  target: 'node20',
  minify: true,
  metafile: true,
  outdir: 'dist',
  logLevel: 'warning',
};

export async function bundle() {
  await rm(`${root}/dist`, { recursive: true, force: true });
  // `import()` of the second file must stay a plain `require`, which every extension host has.
  const lazy = { external: ['vscode', './session.js'], supported: { 'dynamic-import': false } };
  const built = await Promise.all([
    build({ ...common, ...lazy, entryPoints: ['src/extension.ts'] }),
    build({ ...common, external: ['vscode'], entryPoints: ['src/session.ts'] }),
  ]);
  writeFileSync(
    `${root}/dist/LICENSES.txt`,
    licenses(built.flatMap(({ metafile }) => Object.keys(metafile.inputs))),
  );
}

/** The licences of the packages that `inputs`, files of the bundles, come from. */
function licenses(inputs) {
  const folder = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/;
  const packages = new Set(inputs.map((input) => folder.exec(input)?.[0]).filter(Boolean));
  const texts = [...packages].sort().map((name) => {
    const place = path.resolve(root, name);
    const { name: title, version } = JSON.parse(readFileSync(path.join(place, 'package.json'), 'utf8'));
    const file = readdirSync(place).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${title} has no file with its licence`);
    return `${title} ${version}\n\n${readFileSync(path.join(place, file), 'utf8').trim()}\n`;
  });
  return `Packages inside this extension, and their licences.\n\n${texts.join('\n----\n\n')}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle();
