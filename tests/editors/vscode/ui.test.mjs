// From a wrong kernel to a right one in a real VS Code, with the real server inside the installed vsix, as a user
// sees it.
//
// VSCODE_VSIX names the package, WARPSMITH_PYTHON an interpreter with torch and Triton.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';

import { Window, browser, eventually, install } from './vscode.mjs';

const checkout = path.resolve(import.meta.dirname, '../../..');
// Without its long first comment the kernel stands on the first screen.
const right = fs
  .readFileSync(
    path.join(process.env.VSCODE_KERNELS ?? path.join(checkout, 'kernels/triton'), 'softmax.py'),
    'utf8',
  )
  .replace(/^"""[^]*?"""/, '"""Softmax over the last dimension."""');
const MASK = ', mask=inside)';
const bugLine = right.split('\n').findIndex((line) => line.includes('tl.store(') && line.endsWith(MASK)) + 1;
assert.ok(bugLine > 0, 'the kernel has a `tl.store(…, mask=inside)` on one line to take the mask from');
const wrong = right
  .split('\n')
  .map((line, index) => (index + 1 === bugLine ? line.replace(MASK, ')') : line))
  .join('\n');

let chromium, installed;
before(async () => {
  installed = install(process.env.VSCODE_VSIX);
  chromium = await browser();
});
after(async () => {
  await chromium?.close();
  installed?.remove();
});

const open = (files, options = {}) =>
  Window.open(chromium, { extensions: installed.extensions, files, ...options });

/** A program that says it is another version. */
function stub(version) {
  const file = path.join(installed.extensions, `warpsmith-${version}`);
  fs.writeFileSync(file, `#!/bin/sh\necho warpsmith ${version}\n`, { mode: 0o755 });
  return file;
}

describe('a softmax', () => {
  let window;
  before(async () => {
    window = await open({ 'softmax.py': wrong, 'other.py': right, 'plain.py': 'print("no kernel")\n' });
  });
  after(() => window?.close());
  afterEach((context) => window?.picture(`after ${context.name}`));

  test('opened, it has a lens at the kernel, and nothing is judged', async () => {
    await window.lens('▶ check').waitFor();
    await window.awaitStatus('warpsmith: not checked');
    assert.equal(await window.squiggles.count(), 0);
    await window.picture('1-opened');
  });

  test('saved, an Error stands at the very line, and lens and status say wrong', async () => {
    await window.goTo(1);
    await window.page.keyboard.type(' ');
    await window.save();
    await window.squiggles.first().waitFor();
    await window.lens('✗ wrong: out-of-bounds').waitFor();
    await window.awaitStatus('warpsmith: wrong');
    await window.page.keyboard.press('F8');
    const peek = window.page.locator('.peekview-widget, .zone-widget').filter({ hasText: 'out-of-bounds' });
    await peek.first().waitFor();
    await window.picture('2-wrong');
    await window.page.keyboard.press('Escape');
  });

  test('edited, the finding is one of an older text', async () => {
    await window.goTo(bugLine);
    await window.page.keyboard.press('Backspace');
    await window.page.keyboard.type(MASK);
    await window.lens('(stale)').waitFor();
    assert.ok(
      !(await window.lenses()).some((title) => title.startsWith('✓')),
      'not passed before it is checked',
    );
    await window.picture('3-stale');
  });

  test('mended and saved, the Error goes and the lens says ✓', async () => {
    await window.save();
    await window.lens('✓').waitFor();
    await eventually(async () => assert.equal(await window.squiggles.count(), 0));
    await window.awaitStatus('warpsmith: passed');
    await window.picture('4-passed');
  });

  test('hover on the name shows the table of cases', async () => {
    const name = window.page.locator('.view-line', { hasText: 'def _softmax_rows' }).first();
    const box = await name.locator('span span', { hasText: '_softmax_rows' }).last().boundingBox();
    await eventually(async () => {
      await window.page.mouse.move(0, 0);
      await window.page.mouse.move(box.x + box.width / 2, box.y + box.height / 2, { steps: 4 });
      await window.page.locator('.monaco-hover table').first().waitFor({ timeout: 3000 });
    });
    await window.picture('5-hover');
    await window.page.keyboard.press('Escape');
    await window.page.mouse.move(0, 0);
  });

  test('a check that was asked for shows progress, and its button cancels it', async () => {
    await window.goTo(bugLine);
    await window.command('warpsmith: Check the Kernel at the Cursor');
    const toast = window.page.locator('.notification-toast', { hasText: 'softmax.py' });
    await toast.waitFor();
    await window.picture('6-progress');
    await toast.locator('.monaco-button, .monaco-text-button', { hasText: 'Cancel' }).click();
    await toast.waitFor({ state: 'detached' });
    await eventually(async () => {
      const titles = await window.lenses();
      assert.ok(titles.length > 0 && titles.every((title) => !title.startsWith('⟳')), titles.join('; '));
    });
  });

  test('a click on a lens checks, another one cancels', async () => {
    await window.press('✓', async (limit) => window.lens('⟳').waitFor(limit));
    await window.press('⟳', async (limit) => window.lens('⟳').waitFor({ ...limit, state: 'detached' }));
    await window.lens('✓').waitFor();
    await window.awaitStatus('warpsmith: passed');
  });

  test('the menu of the status item offers what makes sense', async () => {
    await window.status.click();
    await window.page.locator('.quick-input-list .monaco-list-row', { hasText: 'Check this file' }).waitFor();
    await window.page.locator('.quick-input-list .monaco-list-row', { hasText: 'Run the doctor' }).waitFor();
    await window.picture('7-menu');
    await window.page.keyboard.press('Escape');
  });

  test('the log is the server’s own file', async () => {
    await window.command("warpsmith: Show the Server's Log");
    await window.page.locator('.tab.active', { hasText: 'warpsmith.log' }).waitFor();
    await window.openFile('softmax.py');
  });

  test('a file without Triton has no item', async () => {
    await window.openFile('plain.py');
    await window.status.waitFor({ state: 'hidden' });
  });

  test('another kernel, opened beside, has its lens soon', async (context) => {
    await window.openFile('other.py');
    const opened = performance.now();
    await window.lens('▶ check').waitFor();
    context.diagnostic(`from the tab to the lens: ${Math.round(performance.now() - opened)} ms`);
  });

  test('the doctor speaks in a terminal that stays', async () => {
    await window.command('warpsmith: Run the Doctor');
    await window.page.locator('.xterm-rows', { hasText: 'kernels can be checked here' }).waitFor();
    await window.picture('8-doctor');
  });

  test('VS Code lists it as activated', async (context) => {
    // Only rows that are on the screen exist.
    await window.page.setViewportSize({ width: 1280, height: 2400 });
    await window.command('Developer: Show Running Extensions');
    const row = window.page.locator('.monaco-list-row', { hasText: /warpsmith.*Activation: \d+ms/s }).first();
    await row.waitFor();
    context.diagnostic(/Activation: \d+ms/.exec(await row.innerText())[0]);
    await window.picture('11-activation');
  });
});

describe('a workspace that is not trusted', () => {
  const PATH = 'warpsmith.server.path';
  let window;
  before(async () => {
    const settings = {
      'security.workspace.trust.enabled': true,
      'security.workspace.trust.startupPrompt': 'never',
      'security.workspace.trust.banner': 'never',
    };
    window = await open({ 'softmax.py': wrong }, { settings });
  });
  after(() => window?.close());
  afterEach((context) => window?.picture(`after ${context.name}`));

  const closed = '– not trusted: nothing is run';

  test('has lenses, and neither a save nor a click runs anything', async () => {
    await window.lens(closed).waitFor();
    await window.awaitStatus('warpsmith: not trusted');
    await window.goTo(1);
    await window.page.keyboard.type(' ');
    await window.save();
    const toast = window.page.locator('.notification-toast', { hasText: 'not trusted' });
    await window.press(closed, async (limit) => toast.waitFor(limit));
    // A check of this kernel would have ended by then.
    await window.page.waitForTimeout(1500);
    assert.deepEqual([...new Set(await window.lenses())], [closed]);
    assert.equal(await window.squiggles.count(), 0);
    await window.picture('9-restricted');
  });

  test('is judged once it is trusted', async () => {
    await window.page
      .locator('.notification-toast .monaco-button', { hasText: 'Manage Workspace Trust' })
      .click();
    await window.page
      .locator('.workspace-trust-buttons .monaco-button', { hasText: /^Trust/ })
      .first()
      .click();
    await window.status.waitFor({ state: 'hidden' });
    await window.openFile('softmax.py');
    await window.awaitStatus('warpsmith: not checked');
    await window.goTo(1);
    await window.page.keyboard.type(' ');
    await window.save();
    await window.lens('✗ wrong: out-of-bounds').waitFor();
  });

  test('a server that is too old is told, with what to do', async () => {
    window.setMachine({ [PATH]: stub('0.0.9') });
    await window.awaitStatus('warpsmith: server too old');
    await window.page.locator('.notification-toast', { hasText: 'is version 0.0.9' }).waitFor();
  });

  test('one that is not there is told, with what to do', async () => {
    window.setMachine({ [PATH]: '/nowhere/warpsmith' });
    await window.awaitStatus('warpsmith: server missing');
    await window.page.locator('.notification-toast', { hasText: 'names /nowhere/warpsmith' }).waitFor();
  });

  test('it starts as soon as the setting is mended', async () => {
    window.setMachine({});
    // What the check before said of this very text.
    await window.awaitStatus('warpsmith: wrong');
  });

  test('one that is killed is started again, one that is restarted leaves none behind', async () => {
    const running = async (not) => {
      const [pid, ...more] = window.programs();
      assert.ok(pid && pid !== not && more.length === 0, `${pid} ${more}`);
      return pid;
    };
    const first = await eventually(() => running());
    process.kill(first, 'SIGKILL');
    const second = await eventually(() => running(first));
    await window.awaitStatus('warpsmith: wrong');
    await window.command('warpsmith: Restart the Server');
    await eventually(() => running(second));
    await window.awaitStatus('warpsmith: wrong');
  });
});
