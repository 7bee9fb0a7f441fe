// Where the server writes its log.

import { readdir, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import * as path from 'node:path';

/** The newest file of the server's log folder; `undefined` before it has written one. */
export async function newestLog(environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  const state =
    environment['XDG_STATE_HOME'] || path.join(environment['HOME'] || homedir(), '.local', 'state');
  const folder = path.join(state, 'warpsmith', 'log');
  let newest: { file: string; changedMs: number } | undefined;
  for (const name of await readdir(folder).catch(() => [])) {
    const file = path.join(folder, name);
    const found = await stat(file).catch(() => undefined);
    if (found?.isFile() && (!newest || found.mtimeMs > newest.changedMs))
      newest = { file, changedMs: found.mtimeMs };
  }
  return newest?.file;
}
