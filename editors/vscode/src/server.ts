// Finds the program and asks it for its version, before anything is started.

import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import * as path from 'node:path';

import { MINIMUM_SERVER, isAtLeast, parseVersion } from './version.js';

/** On a cold disk, or a network one, the first start of a program takes its time. */
const VERSION_LIMIT_MS = 10_000;

export interface Server {
  readonly program: string;
  /** As the program says it: `0.1.0`. */
  readonly version: string;
}

/** Why there is no server; `message` is for people. */
export interface Problem {
  readonly kind: 'missing' | 'too-old' | 'broken';
  readonly message: string;
}

export interface Places {
  /** The setting `warpsmith.server.path`; empty when it is not set. */
  readonly setting: string;
  /** The folder of the extension. */
  readonly extension: string;
  readonly environment: NodeJS.ProcessEnv;
}

const NAME = process.platform === 'win32' ? 'warpsmith.exe' : 'warpsmith';

/** The program of the setting, or else the one inside the extension, or else the first on the PATH. */
export async function locate(places: Places): Promise<string | Problem> {
  if (places.setting) {
    const program = places.setting.replace(/^~(?=$|[\\/])/, homedir());
    if (await isExecutable(program)) return program;
    return {
      kind: 'missing',
      message: `warpsmith.server.path names ${program}, which is no program that can be run.`,
    };
  }
  const folders = (places.environment['PATH'] ?? '').split(path.delimiter).filter(path.isAbsolute);
  for (const folder of [path.join(places.extension, 'server'), ...folders]) {
    const program = path.join(folder, NAME);
    if (await isExecutable(program)) return program;
  }
  const message =
    'The program warpsmith was found neither in the extension nor on the PATH. Build it with ' +
    '`cargo install --path .` in a checkout, or name it in warpsmith.server.path.';
  return { kind: 'missing', message };
}

/** The server that may be started, or why there is none. */
export async function findServer(places: Places): Promise<Server | Problem> {
  const program = await locate(places);
  if (typeof program !== 'string') return program;
  const { output, failure } = await run(program, ['--version']);
  if (failure !== undefined) {
    return { kind: 'broken', message: `${program} --version failed: ${failure}` };
  }
  const version = parseVersion(output);
  if (!version) {
    return {
      kind: 'broken',
      message: `${program} is not warpsmith: asked for its version it says "${firstLine(output)}".`,
    };
  }
  if (!isAtLeast(version, MINIMUM_SERVER)) {
    const message =
      `${program} is version ${version.join('.')}; this extension needs ${MINIMUM_SERVER} or newer. ` +
      'Update it, or clear warpsmith.server.path.';
    return { kind: 'too-old', message };
  }
  return { program, version: version.join('.') };
}

async function isExecutable(program: string): Promise<boolean> {
  try {
    await access(program, constants.X_OK);
    return (await stat(program)).isFile();
  } catch {
    return false;
  }
}

function run(program: string, parameters: string[]): Promise<{ output: string; failure?: string }> {
  return new Promise((resolve) => {
    execFile(program, parameters, { timeout: VERSION_LIMIT_MS }, (error, stdout, stderr) => {
      if (!error) {
        resolve({ output: stdout });
        return;
      }
      const said = firstLine(stderr);
      const why = error.killed ? `no answer in ${VERSION_LIMIT_MS / 1000} s` : said || error.message;
      resolve({ output: stdout, failure: why });
    });
  });
}

function firstLine(text: string): string {
  return text.trim().split('\n')[0] ?? '';
}
