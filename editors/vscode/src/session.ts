// One run of the server with its client. Loaded only when a file mentions Triton.

import * as vscode from 'vscode';
import {
  LanguageClient,
  type LanguageClientOptions,
  type Middleware,
  NotificationType,
  type ProgressToken,
  State as ClientState,
  type StaticFeature,
  type WorkDoneProgressBegin,
  WorkDoneProgressCancelNotification,
  type WorkDoneProgressEnd,
  type WorkDoneProgressReport,
} from 'vscode-languageclient/node';

import { type Kernel, kernelsOf } from './lenses.js';
import type { Server } from './server.js';
import type { Running, ServerStatus } from './status.js';

/** Commands of the server that run code, or ask whether it may be run: VS Code asks, not the server. */
const GUARDED = ['warpsmith.check', 'warpsmith.trust'];
const CHECK = 'warpsmith.check';
/** A server that does not end by then is left to its own watch over us. */
const STOP_LIMIT_MS = 2_000;
const NOTIFICATION_INTERVAL_MS = 200;

const serverStatus = new NotificationType<ServerStatus>('experimental/serverStatus');

type WorkDone = WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd;

/** What a session tells its owner. */
export interface Listener {
  statusChanged(status: ServerStatus): void;
  /** The newest running check; `undefined` when none shows progress. */
  runningChanged(running: Running | undefined): void;
  kernelsChanged(uri: string, kernels: readonly Kernel[]): void;
  /** The server runs: for the first time, or again after a crash, which the client mends a few times by itself. */
  started(): void;
  stopped(): void;
  /** Whether code may be run; asks the user if not. */
  mayRun(): boolean;
}

interface Shown extends Running {
  /** Ends the notification of a check that the user asked for. */
  readonly close?: () => void;
}

export class Session {
  private readonly client: LanguageClient;
  private readonly running = new Map<ProgressToken, Shown>();
  /** The user asked for a check, and will look for a sign of it. */
  private wasAsked = false;
  private isStopping = false;

  constructor(
    server: Server,
    options: Record<string, unknown>,
    output: vscode.LogOutputChannel,
    private readonly listener: Listener,
  ) {
    const clientOptions: LanguageClientOptions = {
      documentSelector: [{ scheme: 'file', language: 'python' }],
      initializationOptions: options,
      outputChannel: output,
      progressOnInitialization: false,
      middleware: this.middleware(),
    };
    this.client = new LanguageClient(
      'warpsmith',
      'warpsmith',
      { command: server.program, args: ['lsp'] },
      clientOptions,
    );
    this.client.registerFeature(statusFeature);
    this.client.onNotification(serverStatus, (status) => {
      if (status.quiescent) this.wasAsked = false;
      listener.statusChanged(status);
    });
    this.client.onDidChangeState(({ newState }) => {
      if (this.isStopping) return;
      if (newState === ClientState.Running) listener.started();
      if (newState !== ClientState.Stopped) return;
      this.forgetRunning();
      listener.stopped();
    });
  }

  start(): Promise<void> {
    return this.client.start();
  }

  async stop(): Promise<void> {
    this.isStopping = true;
    this.forgetRunning();
    // One that never started, or hangs, has nothing more to say.
    await this.client.dispose(STOP_LIMIT_MS).catch(() => undefined);
  }

  private middleware(): Middleware {
    return {
      provideCodeLenses: async (document, token, next) => {
        const lenses = await next(document, token);
        if (lenses && !token.isCancellationRequested) {
          this.listener.kernelsChanged(document.uri.toString(), kernelsOf(lenses));
        }
        return lenses;
      },
      executeCommand: (command, parameters, next) => {
        if (GUARDED.includes(command) && !this.listener.mayRun()) return undefined;
        if (command === CHECK) this.wasAsked = true;
        return next(command, parameters);
      },
      // The client itself would show every check in the status bar, beside our item, and without a way to cancel it.
      handleWorkDoneProgress: (token, value, next) => {
        this.progress(token, value);
        // Without its begin the client shows nothing; it cleans up at the end.
        if (value.kind === 'end') next(token, value);
      },
    };
  }

  private progress(token: ProgressToken, value: WorkDone): void {
    const known = this.running.get(token);
    switch (value.kind) {
      case 'begin': {
        const running: Running = { title: value.title, message: value.message, percentage: value.percentage };
        this.running.set(
          token,
          this.wasAsked ? { ...running, close: this.notify(token, value.title) } : running,
        );
        this.wasAsked = false;
        break;
      }
      case 'report':
        if (!known) return;
        this.running.set(token, {
          ...known,
          message: value.message ?? known.message,
          percentage: value.percentage ?? known.percentage,
        });
        break;
      case 'end':
        known?.close?.();
        this.running.delete(token);
    }
    this.listener.runningChanged([...this.running.values()].at(-1));
  }

  /** A notification with a button to cancel; the answer ends it. */
  private notify(token: ProgressToken, title: string): () => void {
    let close: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => {
      close = resolve;
    });
    const options = {
      location: vscode.ProgressLocation.Notification,
      title: `warpsmith: ${title}`,
      cancellable: true,
    };
    void vscode.window.withProgress(options, async (progress, cancellation) => {
      const cancelled = cancellation.onCancellationRequested(() => {
        void this.client.sendNotification(WorkDoneProgressCancelNotification.type, { token });
      });
      let shown = 0;
      const timer = setInterval(() => {
        const running = this.running.get(token);
        if (!running) return;
        const percentage = running.percentage ?? shown;
        progress.report({ message: running.message ?? '', increment: percentage - shown });
        shown = percentage;
      }, NOTIFICATION_INTERVAL_MS);
      await ended;
      clearInterval(timer);
      cancelled.dispose();
    });
    return close;
  }

  private forgetRunning(): void {
    for (const running of this.running.values()) running.close?.();
    this.running.clear();
    this.listener.runningChanged(undefined);
  }
}

/** Tells the server that its status is shown, and that whether a workspace is trusted is asked here. */
const statusFeature: StaticFeature = {
  fillClientCapabilities(capabilities) {
    capabilities.experimental = {
      ...capabilities.experimental,
      serverStatusNotification: true,
      workspaceTrust: true,
    };
  },
  initialize: () => undefined,
  getState: () => ({ kind: 'static' }),
  clear: () => undefined,
};
