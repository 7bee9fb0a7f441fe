// The parts without VS Code. VSCODE_OUT names the folder of the compiled sources.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

const part = (name) => import(path.join(process.env.VSCODE_OUT, `${name}.js`));
const { kernelAt, kernelsOf, stateOf, worst } = await part('lenses');
const { newestLog } = await part('log');
const { findServer } = await part('server');
const { doctorArguments, initializationOptions } = await part('settings');
const { view } = await part('status');
const { mentionsTriton } = await part('triton');
const { isAtLeast, parseVersion } = await part('version');

const lens = (line, title, kernel, command = 'warpsmith.check') => ({
  range: { start: { line } },
  command: { title, command, arguments: [{ uri: 'file:///k.py', kernel }] },
});

test('a file concerns us when it names Triton as a word', () => {
  assert.ok(mentionsTriton('import triton.language as tl'));
  assert.ok(mentionsTriton('x = 1\nfrom triton import jit'));
  assert.ok(!mentionsTriton('import torch'));
  assert.ok(!mentionsTriton('tritonic = 1'));
});

describe('lenses', () => {
  test('a pass of an older text is no pass', () => {
    const states = {
      '✗ wrong: race': 'wrong',
      '▶ check': 'unchecked',
      '⟳ checking 3/9': 'unchecked',
      '✓ torch ref · 9 cases': 'passed',
    };
    for (const [title, state] of Object.entries(states)) assert.equal(stateOf(title), state);
    assert.equal(stateOf('✓ torch ref · 9 cases (stale)'), 'unchecked');
    assert.equal(stateOf('= HEAD · 9 cases'), 'other');
    assert.equal(stateOf('– could not run: torch is missing'), 'other');
  });

  test('kernels are read in the order of their lines, and only from ours', () => {
    const kernels = kernelsOf([
      lens(9, '✓ b', 'second'),
      lens(2, '▶ check', 'first'),
      lens(1, 'Run', 'x', 'python.run'),
    ]);
    assert.deepEqual(
      kernels.map((kernel) => [kernel.line, kernel.name, kernel.state]),
      [
        [2, 'first', 'unchecked'],
        [9, 'second', 'passed'],
      ],
    );
    assert.deepEqual(kernelsOf([{ range: { start: { line: 1 } } }]), []);
    assert.equal(
      kernelsOf([{ ...lens(1, '▶ check'), command: { title: '▶ check', command: 'warpsmith.check' } }])[0]
        .name,
      undefined,
    );
  });

  test('the kernel at the cursor is the last that begins at or above it', () => {
    const kernels = kernelsOf([lens(2, '▶ check', 'first'), lens(9, '▶ check', 'second')]);
    assert.deepEqual(
      [0, 2, 8, 9, 40].map((line) => kernelAt(kernels, line)?.name),
      [undefined, 'first', 'first', 'second', 'second'],
    );
  });

  test('a file passed only if every kernel passed', () => {
    const of = (...titles) => worst(kernelsOf(titles.map((title, line) => lens(line, title, `k${line}`))));
    assert.equal(of(), undefined);
    assert.equal(of('✓ a', '✓ b'), 'passed');
    assert.equal(of('✓ a', '▶ check'), 'unchecked');
    assert.equal(of('✓ a', '– not judged: x', '▶ check'), 'other');
    assert.equal(of('✓ a', '– not judged: x', '✗ wrong'), 'wrong');
  });
});

describe('versions', () => {
  test('only warpsmith’s own words are a version', () => {
    assert.deepEqual(parseVersion('warpsmith 0.12.3\n'), [0, 12, 3]);
    for (const other of ['', 'ruff 0.17.6', 'warpsmith', 'Usage: warpsmith 1.2.3'])
      assert.equal(parseVersion(other), undefined);
  });

  test('are compared as numbers', () => {
    assert.ok(
      isAtLeast([0, 10, 0], '0.9.9') && isAtLeast([1, 0, 0], '0.9.9') && isAtLeast([0, 1, 0], '0.1.0'),
    );
    assert.ok(!isAtLeast([0, 0, 9], '0.1.0') && !isAtLeast([0, 9, 9], '0.10.0'));
  });
});

describe('the server', () => {
  let folder;
  before(() => (folder = fs.mkdtempSync(path.join(os.tmpdir(), 'warpsmith-unit-'))));
  after(() => fs.rmSync(folder, { recursive: true }));

  const program = (name, script, mode = 0o755) => {
    const file = path.join(folder, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode });
    return file;
  };
  const find = (setting, environment = {}, extension = '/nowhere') =>
    findServer({ setting, extension, environment });

  test('of the setting is taken, and its version asked for', async () => {
    const file = program('good', 'echo warpsmith 0.3.1');
    assert.deepEqual(await find(file), { program: file, version: '0.3.1' });
  });

  test('of the setting is never replaced by another', async () => {
    const bin = path.dirname(program('bin/warpsmith', 'echo warpsmith 0.3.1'));
    for (const setting of [path.join(folder, 'none'), program('plain', '', 0o644), folder]) {
      const { kind, message } = await find(setting, { PATH: bin }, folder);
      assert.equal(kind, 'missing');
      assert.ok(message.includes(setting), message);
    }
  });

  test('inside the extension comes before one on the PATH', async () => {
    const inside = program('extension/server/warpsmith', 'echo warpsmith 0.1.0');
    const bin = path.dirname(program('bin/warpsmith', 'echo warpsmith 0.3.1'));
    assert.equal((await find('', { PATH: bin }, path.join(folder, 'extension'))).program, inside);
    assert.equal((await find('', { PATH: `relative:${bin}` })).program, path.join(bin, 'warpsmith'));
    assert.equal((await find('', {})).kind, 'missing');
  });

  test('that is too old, fails or is another program is told apart', async () => {
    assert.match(
      (await find(program('old', 'echo warpsmith 0.0.9'))).message,
      /is version 0\.0\.9; this extension needs 0\.1\.0/,
    );
    const other = await find(program('other', 'echo hello'));
    assert.deepEqual([other.kind, /is not warpsmith.*"hello"/.test(other.message)], ['broken', true]);
    const failing = await find(program('failing', 'echo no libc >&2; exit 3'));
    assert.deepEqual([failing.kind, /no libc/.test(failing.message)], ['broken', true]);
  });
});

describe('settings', () => {
  const reader = (values) => (name) => values[name];

  test('go to the server in its own form, empty ones not at all', () => {
    const values = {
      'python.path': '',
      'check.onSave': 'full',
      'gpu.device': 'cuda:1',
      'gpu.whenBusy': null,
    };
    assert.deepEqual(initializationOptions(reader(values), true), {
      check: { onSave: 'full' },
      gpu: { device: 'cuda:1' },
      untrustedWorkspace: false,
    });
  });

  test('that are off are said, not left out', () => {
    const values = { 'lint.enable': false, 'lint.disable': [] };
    assert.deepEqual(initializationOptions(reader(values), true).lint, { enable: false, disable: [] });
  });

  test('say whether the workspace is trusted, in every case', () => {
    assert.deepEqual(initializationOptions(reader({}), false), { untrustedWorkspace: true });
    assert.deepEqual(initializationOptions(reader({}), true), { untrustedWorkspace: false });
  });

  test('make the doctor look where the server looks', () => {
    assert.deepEqual(doctorArguments(reader({ 'python.path': '/v/python' }), '/k.py'), [
      'doctor',
      '--python',
      '/v/python',
      '/k.py',
    ]);
    assert.deepEqual(doctorArguments(reader({ 'python.path': '' }), undefined), ['doctor']);
  });
});

describe('the status item', () => {
  const server = { program: '/w', version: '0.1.0' };
  const state = (changes) => ({
    life: { kind: 'running', server },
    isTrusted: true,
    status: undefined,
    running: undefined,
    kernels: [],
    ...changes,
  });
  const kernels = (...titles) => kernelsOf(titles.map((title, line) => lens(line, title, `k${line}`)));
  const text = (changes) => view(state(changes)).text;

  test('says the worst of the file', () => {
    assert.equal(text({ kernels: kernels('✓ a') }), '$(check) warpsmith: passed');
    assert.equal(text({ kernels: kernels('✓ a', '✗ wrong: race') }), '$(close) warpsmith: wrong 1/2');
    assert.equal(text({ kernels: kernels('✓ a (stale)') }), '$(circle-outline) warpsmith: not checked');
    assert.equal(text({ kernels: kernels('– could not run: no GPU') }), '$(dash) warpsmith: could not run');
    assert.equal(text({ kernels: kernels('= HEAD · 3 cases') }), '$(dash) warpsmith: as at HEAD');
    assert.equal(text({}), '$(zap) warpsmith');
  });

  test('says what runs, with a count or a percentage', () => {
    const running = { title: 'check k.py', message: '3/14 · M=1 · f16', percentage: 21 };
    assert.equal(text({ running }), '$(loading~spin) warpsmith: checking 3/14');
    assert.equal(
      text({ running: { ...running, message: 'starting' } }),
      '$(loading~spin) warpsmith: checking 21%',
    );
    assert.equal(text({ status: { health: 'ok', quiescent: false } }), '$(loading~spin) warpsmith: checking');
    assert.equal(
      text({ status: { health: 'ok', quiescent: true }, kernels: kernels('✓ a') }),
      '$(check) warpsmith: passed',
    );
  });

  test('says why nothing is judged, and never passed then', () => {
    const passed = kernels('✓ a');
    const could = view(
      state({
        kernels: passed,
        status: { health: 'warning', quiescent: true, message: 'could not run: torch is missing' },
      }),
    );
    assert.deepEqual([could.text, could.level], ['$(warning) warpsmith: could not run', 'warning']);
    assert.match(could.tooltip, /torch is missing/);
    assert.match(text({ kernels: passed, isTrusted: false }), /not trusted/);
    const status = { health: 'ok', quiescent: true, message: 'not trusted: nothing is run', trusted: false };
    assert.match(text({ kernels: passed, status }), /not trusted/);
    assert.match(text({ kernels: kernels('– not trusted: nothing is run') }), /not trusted/);
    assert.match(text({ kernels: passed, life: { kind: 'stopped' } }), /server stopped/);
    for (const [kind, words] of [
      ['missing', 'server missing'],
      ['too-old', 'server too old'],
      ['broken', 'server does not start'],
    ]) {
      const failed = view(
        state({ kernels: passed, life: { kind: 'failed', problem: { kind, message: 'why' } } }),
      );
      assert.deepEqual(
        [failed.text, failed.tooltip, failed.level],
        [`$(error) warpsmith: ${words}`, 'why', 'error'],
      );
    }
  });

  test('shows the server’s words as words', () => {
    const { tooltip } = view(state({ kernels: kernels('✗ wrong: [x](command:y) $(bug) `a`') }));
    assert.ok(tooltip.includes('\\[x\\]\\(command:y\\) \\$\\(bug\\) \\`a\\`'), tooltip);
  });
});

test('the newest file of the log folder is shown', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'warpsmith-log-'));
  const logs = path.join(folder, 'warpsmith/log');
  assert.equal(await newestLog({ XDG_STATE_HOME: folder }), undefined);
  fs.mkdirSync(path.join(logs, 'folder'), { recursive: true });
  for (const [name, changedS] of [
    ['new.log', 2_000],
    ['old.log', 1_000],
  ]) {
    fs.writeFileSync(path.join(logs, name), '');
    fs.utimesSync(path.join(logs, name), changedS, changedS);
  }
  assert.equal(await newestLog({ XDG_STATE_HOME: folder }), path.join(logs, 'new.log'));
  fs.rmSync(folder, { recursive: true });
});
