// How long a user of VS Code waits: activation of the extension, from a file's tab to its lens, and from the first save
// to the verdict. Prints one line of JSON. The variables are those of tests/editors/vscode/vscode.mjs; VSCODE_VSIX
// names the package.

import fs from 'node:fs';
import path from 'node:path';

import { Window, browser, eventually, install } from '../editors/vscode/vscode.mjs';

const [kernel, repeats] = [process.argv[2], Number(process.argv[3])];
const right = fs.readFileSync(kernel, 'utf8').replace(/^"""[^]*?"""/, '"""Softmax over the last dimension."""');
const wrong = right.replace(/(tl\.store\(.*), mask=inside\)/, '$1)');
const files = { 'first.py': wrong };
for (let number = 0; number < repeats; number += 1) files[`later${number}.py`] = right;

const installed = install(process.env.VSCODE_VSIX);
const chromium = await browser();
const since = (began) => Math.round(performance.now() - began);
let window;
try {
  const began = performance.now();
  window = await Window.open(chromium, { extensions: installed.extensions, files });
  const workbench_ms = since(began);
  await window.lens('▶ check').waitFor();
  const first_lens_ms = since(began);
  await window.goTo(1);
  await window.page.keyboard.type(' ');
  const saved = performance.now();
  await window.save();
  await window.lens('✗ wrong').waitFor();
  const first_verdict_ms = since(saved);
  const later_open_ms = [];
  for (let number = 0; number < repeats; number += 1) {
    await window.openFile(`later${number}.py`);
    const opened = performance.now();
    await window.lens('▶ check').waitFor();
    later_open_ms.push(since(opened));
  }
  await window.page.setViewportSize({ width: 1280, height: 2400 });
  await window.command('Developer: Show Running Extensions');
  const row = window.page.locator('.monaco-list-row', { hasText: /warpsmith.*Activation: \d+ms/s }).first();
  const activation_ms = await eventually(async () => Number(/Activation: (\d+)ms/.exec(await row.innerText())[1]));
  console.log(JSON.stringify({ workbench_ms, first_lens_ms, first_verdict_ms, later_open_ms, activation_ms }));
} finally {
  await window?.close();
  await chromium.close();
  installed.remove();
}
