// What the server reads in the handshake. The settings it asks for again, then and at every change.

/** Reads one setting below `warpsmith.`. */
export type Read = (name: string) => unknown;

const NAMES = [
  'python.path',
  'check.onSave',
  'gpu.device',
  'gpu.whenBusy',
  'lint.enable',
  'lint.disable',
];

/** What goes to the server: the settings, and whether it may run code of this workspace. */
export function initializationOptions(
  read: Read,
  isTrusted: boolean,
): Record<string, unknown> {
  const options: Record<string, Record<string, unknown>> = {};
  for (const name of NAMES) {
    const value = read(name);
    // Empty stands for "not set": every default is the server's own.
    if (value === undefined || value === null || value === '') continue;
    const [group, key] = name.split('.') as [string, string];
    (options[group] ??= {})[key] = value;
  }
  return { ...options, untrustedWorkspace: !isTrusted };
}

/** Options of `warpsmith doctor`, so that it looks at what the server looks at. */
export function doctorArguments(read: Read, file: string | undefined): string[] {
  const python = read('python.path');
  const chosen = typeof python === 'string' && python ? ['--python', python] : [];
  return ['doctor', ...chosen, ...(file ? [file] : [])];
}
