// Makes warpsmith-TARGET.vsix, with the server inside.
//
//   npm run package                                          linux-x64, ../../target/release/warpsmith
//   npm run package -- --target TARGET --server PATH         another platform and its program (untried)
//   npm run package -- --no-server                           for every platform; the program is looked for on the PATH
//   npm run package -- … --out FILE                          where the vsix goes

import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { bundle } from './build.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const checkout = path.resolve(root, '../..');
const { values } = parseArgs({
  options: {
    target: { type: 'string', default: 'linux-x64' },
    server: { type: 'string' },
    'no-server': { type: 'boolean', default: false },
    out: { type: 'string' },
  },
});

function fail(message) {
  console.error(message);
  process.exit(1);
}

/** Takes the tables for debuggers out, which are three quarters of a release build. */
function strip(program) {
  const ended = spawnSync('strip', [program], { stdio: 'inherit' });
  if (ended.status !== 0) fail(`strip could not make ${program} smaller: install binutils`);
}

const { target } = values;
const withServer = !values['no-server'];
if (withServer && target !== 'linux-x64') {
  if (!values.server) fail(`say where the program for ${target} is: --server PATH`);
  console.warn(`a vsix for ${target} has never been tried`);
}

rmSync(path.join(root, 'server'), { recursive: true, force: true });
if (withServer) {
  const program = path.resolve(values.server ?? path.join(checkout, 'target/release/warpsmith'));
  if (!existsSync(program))
    fail(`${program} does not exist: run \`cargo build --release\` first, or give --server PATH`);
  const inside = path.join(root, 'server', target.startsWith('win32') ? 'warpsmith.exe' : 'warpsmith');
  mkdirSync(path.dirname(inside));
  copyFileSync(program, inside);
  chmodSync(inside, 0o755);
  if (target === 'linux-x64') strip(inside);
}
for (const name of ['LICENSE-MIT', 'LICENSE-APACHE'])
  copyFileSync(path.join(checkout, name), path.join(root, name));
await bundle();

const out = path.resolve(
  values.out ?? path.join(root, withServer ? `warpsmith-${target}.vsix` : 'warpsmith.vsix'),
);
const vsce = createRequire(import.meta.url).resolve('@vscode/vsce/vsce');
// The licence is two files, which vsce does not look for.
const options = ['--no-dependencies', '--allow-missing-repository', '--skip-license', '--out', out];
if (withServer) options.push('--target', target);
const ended = spawnSync(process.execPath, [vsce, 'package', ...options], { cwd: root, stdio: 'inherit' });
if (ended.status !== 0) fail('vsce could not make the vsix');
console.log(`${out}: ${(statSync(out).size / 2 ** 20).toFixed(1)} MiB`);
