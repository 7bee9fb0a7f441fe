// The settings as the server reads them in the handshake.

/** Reads one setting below `warpsmith.`. */
export type Read = (name: string) => unknown;

/** What goes to the server. Where code must not be run, no save starts a check, whatever is set. */
export function initializationOptions(
  read: Read,
  isTrusted: boolean,
): Record<string, Record<string, unknown>> {
  const options: Record<string, Record<string, unknown>> = {};
  for (const name of ['python.path', 'check.onSave', 'gpu.device', 'gpu.whenBusy']) {
    const value = read(name);
    // Empty stands for "not set": every default is the server's own.
    if (value === undefined || value === null || value === '') continue;
    const [group, key] = name.split('.') as [string, string];
    (options[group] ??= {})[key] = value;
  }
  if (!isTrusted) options['check'] = { ...options['check'], onSave: 'off' };
  return options;
}

/** Options of `warpsmith doctor`, so that it looks at what the server looks at. */
export function doctorArguments(read: Read, file: string | undefined): string[] {
  const python = read('python.path');
  const chosen = typeof python === 'string' && python ? ['--python', python] : [];
  return ['doctor', ...chosen, ...(file ? [file] : [])];
}
