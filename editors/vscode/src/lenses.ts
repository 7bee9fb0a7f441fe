// What the lenses say. The server alone decides it; nothing here turns the absence of a finding into a pass.

/** A kernel by its lens: 0-based line, the server's words, and what they amount to. */
export interface Kernel {
  readonly line: number;
  readonly name: string | undefined;
  readonly title: string;
  readonly state: KernelState;
}

export type KernelState = 'wrong' | 'other' | 'unchecked' | 'passed';

/** The part of a code lens that is read here. */
export interface LensLike {
  readonly range: { readonly start: { readonly line: number } };
  readonly command?:
    { readonly title: string; readonly command: string; readonly arguments?: unknown[] } | undefined;
}

/** What a title says, by its first sign. A pass of an older text is no pass of this one. */
export function stateOf(title: string): KernelState {
  if (title.startsWith('✗')) return 'wrong';
  if (title.startsWith('▶') || title.startsWith('⟳')) return 'unchecked';
  if (title.startsWith('✓')) return title.includes('(stale') ? 'unchecked' : 'passed';
  return 'other';
}

/** The kernels of a file, in the order of their lines. */
export function kernelsOf(lenses: readonly LensLike[]): Kernel[] {
  const kernels: Kernel[] = [];
  for (const { range, command } of lenses) {
    if (!command?.command.startsWith('warpsmith.')) continue;
    kernels.push({
      line: range.start.line,
      name: nameIn(command.arguments?.[0]),
      title: command.title,
      state: stateOf(command.title),
    });
  }
  return kernels.sort((one, other) => one.line - other.line);
}

function nameIn(target: unknown): string | undefined {
  const name =
    typeof target === 'object' && target !== null && 'kernel' in target ? target.kernel : undefined;
  return typeof name === 'string' ? name : undefined;
}

/** The kernel that a line belongs to: the last one that begins at or above it. */
export function kernelAt(kernels: readonly Kernel[], line: number): Kernel | undefined {
  return kernels.filter((kernel) => kernel.line <= line).at(-1);
}

/** The worst state of all; passed only if every kernel passed. `undefined` without kernels. */
export function worst(kernels: readonly Kernel[]): KernelState | undefined {
  const order: readonly KernelState[] = ['wrong', 'other', 'unchecked', 'passed'];
  return order.find((state) => kernels.some((kernel) => kernel.state === state));
}
