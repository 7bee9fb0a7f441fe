// Which servers this extension can work with.

/** The oldest server that has everything that is asked of it here. */
export const MINIMUM_SERVER = '0.1.0';

export type Version = readonly [major: number, minor: number, patch: number];

/** Reads what `warpsmith --version` prints; `undefined` when another program was asked. */
export function parseVersion(output: string): Version | undefined {
  const match = /^warpsmith (\d+)\.(\d+)\.(\d+)/.exec(output.trim());
  return match ? [Number(match[1]), Number(match[2]), Number(match[3])] : undefined;
}

export function isAtLeast(version: Version, minimum: string): boolean {
  const wanted = minimum.split('.').map(Number);
  for (const [index, part] of version.entries()) {
    const other = wanted[index] ?? 0;
    if (part !== other) return part > other;
  }
  return true;
}
