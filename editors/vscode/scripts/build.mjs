// Bundles the extension into dist/. Two files: what runs for every Python file is small, the language client is loaded
// only when a file mentions Triton.

import { build } from 'esbuild';
import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  format: 'cjs',
  target: 'node20',
  minify: true,
  outdir: 'dist',
  logLevel: 'warning',
};

export async function bundle() {
  await rm(`${root}/dist`, { recursive: true, force: true });
  // `import()` of the second file must stay a plain `require`, which every extension host has.
  const lazy = { external: ['vscode', './session.js'], supported: { 'dynamic-import': false } };
  await Promise.all([
    build({ ...common, ...lazy, entryPoints: ['src/extension.ts'] }),
    build({ ...common, external: ['vscode'], entryPoints: ['src/session.ts'] }),
  ]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle();
