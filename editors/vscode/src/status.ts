// What the status item says, from everything that is known. No VS Code in here.

import { type Kernel, worst } from './lenses.js';
import type { Problem, Server } from './server.js';

/** The server's own `experimental/serverStatus`. */
export interface ServerStatus {
  readonly health: 'ok' | 'warning' | 'error';
  /** No check runs or waits. */
  readonly quiescent: boolean;
  readonly message?: string;
  /** Whether code of the open kernels may be run. */
  readonly trusted?: boolean;
}

/** One running check. */
export interface Running {
  readonly title: string;
  readonly message: string | undefined;
  readonly percentage: number | undefined;
}

export type Life =
  | { readonly kind: 'off' | 'starting' | 'stopped' }
  | { readonly kind: 'running'; readonly server: Server }
  | { readonly kind: 'failed'; readonly problem: Problem };

export interface State {
  readonly life: Life;
  readonly isTrusted: boolean;
  readonly status: ServerStatus | undefined;
  readonly running: Running | undefined;
  /** Of the file that is looked at. */
  readonly kernels: readonly Kernel[];
}

export interface View {
  readonly text: string;
  /** Markdown. */
  readonly tooltip: string;
  readonly level: 'plain' | 'warning' | 'error';
}

const PROBLEMS = { missing: 'server missing', 'too-old': 'server too old', broken: 'server does not start' };

/** The first of these that holds: no server, work, no verdicts possible here, verdicts. */
export function view(state: State): View {
  return ofLife(state) ?? ofWork(state) ?? ofObstacle(state) ?? ofKernels(state);
}

function ofLife({ life }: State): View | undefined {
  switch (life.kind) {
    case 'off':
      return plain('$(circle-slash)', 'The server starts with the first Python file that mentions Triton.');
    case 'starting':
      return plain('$(loading~spin)', 'The server starts.');
    case 'stopped':
      return {
        text: '$(error) warpsmith: server stopped',
        tooltip: 'The server has stopped. Restart it from the menu, and see its log.',
        level: 'error',
      };
    case 'failed':
      return {
        text: `$(error) warpsmith: ${PROBLEMS[life.problem.kind]}`,
        tooltip: life.problem.message,
        level: 'error',
      };
    case 'running':
      return undefined;
  }
}

function ofWork({ running, status }: State): View | undefined {
  if (running) return plain('$(loading~spin)', escaped(progressText(running)), shortProgress(running));
  return status && !status.quiescent
    ? plain('$(loading~spin)', 'A check runs or waits.', 'checking')
    : undefined;
}

function ofObstacle({ isTrusted, status }: State): View | undefined {
  if (!isTrusted || status?.trusted === false) {
    return plain(
      '$(workspace-untrusted)',
      'Not trusted: a check would run the code of this folder, so none is run. Kernels are shown, not judged.',
      'not trusted',
    );
  }
  if (!status || status.health === 'ok') return undefined;
  const tooltip = escaped(status.message ?? 'Kernels cannot be judged here. Run the doctor.');
  return {
    text: '$(warning) warpsmith: could not run',
    tooltip,
    level: status.health === 'error' ? 'error' : 'warning',
  };
}

function ofKernels({ kernels }: State): View {
  const lines = kernels.map(
    (kernel) => `- \`${kernel.name ?? `line ${kernel.line + 1}`}\` ${escaped(kernel.title)}`,
  );
  const tooltip = lines.length > 0 ? lines.join('\n') : 'No kernel in this file.';
  const state = worst(kernels);
  const count = kernels.filter((kernel) => kernel.state === state).length;
  const counted = kernels.length > 1 ? ` ${count}/${kernels.length}` : '';
  switch (state) {
    case undefined:
      return plain('$(zap)', tooltip);
    case 'wrong':
      return plain('$(close)', tooltip, `wrong${counted}`);
    case 'other':
      return plain('$(dash)', tooltip, `${ofOther(kernels)}${counted}`);
    case 'unchecked':
      return plain('$(circle-outline)', tooltip, `not checked${counted}`);
    case 'passed':
      return plain('$(check)', tooltip, `passed${counted}`);
  }
}

/** The server's word for what is neither right nor wrong: `– could not run: …`, `– not judged: …`, `= HEAD`. */
function ofOther(kernels: readonly Kernel[]): string {
  const title = kernels.find((kernel) => kernel.state === 'other')?.title ?? '';
  if (title.startsWith('– could not run')) return 'could not run';
  if (title.startsWith('– not trusted')) return 'not trusted';
  return title.startsWith('=') ? 'as at HEAD' : 'not judged';
}

function plain(icon: string, tooltip: string, words?: string): View {
  return { text: words ? `${icon} warpsmith: ${words}` : `${icon} warpsmith`, tooltip, level: 'plain' };
}

/** `check softmax.py: 3/14 M=127 N=1000 · f16` */
function progressText(running: Running): string {
  return running.message ? `${running.title}: ${running.message}` : running.title;
}

/** What fits a status bar, and does not change its width at every case: the count, or else the percentage. */
function shortProgress({ message, percentage }: Running): string {
  const count = message ? /\d+\/\d+/.exec(message)?.[0] : undefined;
  if (count) return `checking ${count}`;
  return percentage ? `checking ${percentage}%` : 'checking';
}

/** The server's words are no Markdown. */
function escaped(words: string): string {
  return words.replace(/[\\`*_{}[\]()#+!|<>~$-]/g, '\\$&');
}
