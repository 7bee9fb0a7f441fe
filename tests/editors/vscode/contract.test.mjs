// What the extension's package says, against the real server, against the sources and against what was packed.
//
// VSCODE_SOURCE names the folder of the extension, VSCODE_VSIX the package, WARPSMITH_BIN the program.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

const source = process.env.VSCODE_SOURCE;
const manifest = JSON.parse(fs.readFileSync(path.join(source, 'package.json'), 'utf8'));
const properties = manifest.contributes.configuration.properties;

/** Starts the server with `options`; what it answered, and the warnings that it showed. */
async function handshake(options) {
  const server = spawn(process.env.WARPSMITH_BIN, ['lsp'], { stdio: ['pipe', 'pipe', 'ignore'] });
  const messages = [];
  let wake = () => undefined;
  let rest = Buffer.alloc(0);
  server.stdout.on('data', (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    for (;;) {
      const end = rest.indexOf('\r\n\r\n');
      const length = Number(/Content-Length: (\d+)/.exec(rest.subarray(0, Math.max(end, 0)).toString())?.[1]);
      if (end < 0 || rest.length < end + 4 + length) break;
      messages.push(JSON.parse(rest.subarray(end + 4, end + 4 + length).toString()));
      rest = rest.subarray(end + 4 + length);
    }
    wake();
  });
  const send = (message) => {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message });
    server.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  };
  const answer = async (id) => {
    for (;;) {
      const found = messages.find((message) => message.id === id && !message.method);
      if (found) return found.result;
      await new Promise((resolve) => (wake = resolve));
    }
  };
  send({
    id: 1,
    method: 'initialize',
    params: { processId: null, capabilities: {}, initializationOptions: options },
  });
  const result = await answer(1);
  send({ method: 'initialized', params: {} });
  send({ id: 2, method: 'shutdown' });
  await answer(2);
  send({ method: 'exit' });
  await new Promise((resolve) => server.on('exit', resolve));
  return {
    result,
    warnings: messages
      .filter((message) => message.method === 'window/showMessage')
      .map((message) => message.params.message),
  };
}

test('the server takes every value that the settings offer', async () => {
  const offered = {
    'check.onSave': properties['warpsmith.check.onSave'].enum,
    'gpu.whenBusy': properties['warpsmith.gpu.whenBusy'].enum,
    'gpu.device': ['auto', 'cpu', 'cuda', 'cuda:3'],
    'python.path': ['/v/bin/python'],
    'lint.enable': [true, false],
    'lint.disable': [[], properties['warpsmith.lint.disable'].items.enum],
  };
  for (const [name, values] of Object.entries(offered)) {
    const { pattern } = properties[`warpsmith.${name}`];
    for (const value of values) {
      const [group, key] = name.split('.');
      assert.deepEqual((await handshake({ [group]: { [key]: value } })).warnings, [], `${name} ${value}`);
      if (pattern) assert.match(value, new RegExp(pattern));
    }
  }
});

test('the server tells about a value that it does not take', async () => {
  const { warnings } = await handshake({ check: { onSave: 'never' } });
  assert.match(warnings.join(), /check\.onSave/);
});

test('no command of ours has the name of one of the server’s', async () => {
  const { result } = await handshake({});
  const theirs = result.capabilities.executeCommandProvider.commands;
  assert.deepEqual(
    theirs.filter((name) => !['warpsmith.check', 'warpsmith.cancel', 'warpsmith.trust'].includes(name)),
    [],
  );
  for (const { command } of manifest.contributes.commands) assert.ok(!theirs.includes(command), command);
});

test('what names a program is a setting of the machine, and none of an untrusted folder', () => {
  for (const name of ['warpsmith.server.path', 'warpsmith.python.path'])
    assert.equal(properties[name].scope, 'machine');
  const { restrictedConfigurations } = manifest.capabilities.untrustedWorkspaces;
  for (const [name, property] of Object.entries(properties))
    if (property.scope === 'machine') assert.ok(restrictedConfigurations.includes(name), name);
  for (const [name, property] of Object.entries(properties))
    assert.ok(property.description ?? property.markdownDescription, name);
});

test('the README names every setting', () => {
  const readme = fs.readFileSync(path.join(source, 'README.md'), 'utf8');
  for (const name of Object.keys(properties)) assert.ok(readme.includes(`\`${name}\``), name);
});

test('the lock file names no registry', () => {
  const lock = JSON.parse(fs.readFileSync(path.join(source, 'package-lock.json'), 'utf8'));
  assert.equal(lock.version, manifest.version);
  for (const [name, { resolved, integrity }] of Object.entries(lock.packages)) {
    if (name) assert.match(integrity, /^sha512-/, name);
    assert.equal(resolved, undefined, name);
  }
});

test('the vsix is no larger than 15 MiB, whatever the server was built with', () => {
  assert.ok(fs.statSync(process.env.VSCODE_VSIX).size <= 15 * 2 ** 20);
});

test('the vsix holds the extension, the server and nothing else', () => {
  const listed = execFileSync('python3', ['-m', 'zipfile', '-l', process.env.VSCODE_VSIX], {
    encoding: 'utf8',
  });
  const names = listed
    .split('\n')
    .slice(1, -1)
    .map((line) => line.split(' ')[0]);
  const inside = names.filter((name) => name.startsWith('extension/')).sort();
  const expected = [
    'LICENSE-APACHE',
    'LICENSE-MIT',
    'dist/LICENSES.txt',
    'dist/extension.js',
    'dist/session.js',
    'icon.png',
    'package.json',
    'readme.md',
    'server/warpsmith',
  ];
  assert.deepEqual(
    inside,
    expected.map((name) => `extension/${name}`),
  );
});
