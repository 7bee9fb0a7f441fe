// The one owner of the server's life and of what is known: every change goes through here to the status item.

import * as vscode from 'vscode';

import type { Kernel } from './lenses.js';
import { type Problem, type Server, findServer } from './server.js';
import type { Session } from './session.js';
import { type Read, initializationOptions } from './settings.js';
import { StatusItem } from './statusItem.js';
import type { Life, Running, ServerStatus, State } from './status.js';
import { mentionsTriton } from './triton.js';

/** A path is typed letter by letter; the server starts again once. */
const SETTINGS_PAUSE_MS = 300;

export class Owner implements vscode.Disposable {
  private session: Session | undefined;
  private life: Life = { kind: 'off' };
  private status: ServerStatus | undefined;
  private running: Running | undefined;
  private readonly kernels = new Map<string, readonly Kernel[]>();
  private readonly item = new StatusItem();
  private outputChannel: vscode.LogOutputChannel | undefined;
  /** Starts and stops happen one after another. */
  private queue: Promise<void> = Promise.resolve();
  private settingsTimer: NodeJS.Timeout | undefined;
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly context: vscode.ExtensionContext) {
    this.subscriptions = [
      this.item,
      vscode.workspace.onDidOpenTextDocument((document) => this.saw(document)),
      vscode.workspace.onDidSaveTextDocument((document) => this.saw(document)),
      vscode.workspace.onDidCloseTextDocument((document) => this.kernels.delete(document.uri.toString())),
      vscode.window.onDidChangeActiveTextEditor(() => this.show()),
      vscode.workspace.onDidChangeConfiguration((change) => this.settingsChanged(change)),
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.restartIfStarted()),
    ];
    vscode.workspace.textDocuments.forEach((document) => this.saw(document));
    this.show();
  }

  get state(): State {
    const shown = vscode.window.activeTextEditor?.document.uri.toString();
    return {
      life: this.life,
      isTrusted: vscode.workspace.isTrusted,
      status: this.status,
      running: this.running,
      kernels: (shown !== undefined && this.kernels.get(shown)) || [],
    };
  }

  get output(): vscode.LogOutputChannel {
    this.outputChannel ??= vscode.window.createOutputChannel('warpsmith', { log: true });
    return this.outputChannel;
  }

  readonly read: Read = (name) => vscode.workspace.getConfiguration('warpsmith').get(name);

  /** The program, found anew: it may have been installed since. */
  findServer(): Promise<Server | Problem> {
    const setting = this.read('server.path');
    return findServer({
      setting: typeof setting === 'string' ? setting : '',
      extension: this.context.extensionPath,
      environment: process.env,
    });
  }

  /** Starts the server unless it runs; resolves when it does, or cannot. */
  start(): Promise<void> {
    return this.enqueue(async () => {
      if (!this.session) await this.startNow();
    });
  }

  restart(): Promise<void> {
    return this.enqueue(async () => {
      await this.stopNow();
      await this.startNow();
    });
  }

  stop(): Promise<void> {
    return this.enqueue(() => this.stopNow());
  }

  dispose(): void {
    clearTimeout(this.settingsTimer);
    this.subscriptions.forEach((subscription) => subscription.dispose());
    this.outputChannel?.dispose();
  }

  /** Whether code of this workspace may be run; says so if not. */
  mayRun(): boolean {
    if (vscode.workspace.isTrusted) return true;
    const manage = 'Manage Workspace Trust';
    void vscode.window
      .showWarningMessage('warpsmith: that would run code of this workspace, which is not trusted.', manage)
      .then((chosen) => chosen && vscode.commands.executeCommand('workbench.trust.manage'));
    return false;
  }

  private enqueue(work: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(work).catch((error: unknown) => this.output.error(String(error)));
    return this.queue;
  }

  private saw(document: vscode.TextDocument): void {
    if (this.life.kind === 'off' && concerns(document)) void this.start();
    this.show();
  }

  private async startNow(): Promise<void> {
    this.setLife({ kind: 'starting' });
    const server = await this.findServer();
    if ('kind' in server) {
      this.failed(server);
      return;
    }
    const { Session } = await import('./session.js');
    const options = initializationOptions(this.read, vscode.workspace.isTrusted);
    const session: Session = new Session(server, options, this.output, {
      statusChanged: (status) => this.change(session, () => (this.status = status)),
      runningChanged: (running) => this.change(session, () => (this.running = running)),
      kernelsChanged: (uri, kernels) => this.change(session, () => this.kernels.set(uri, kernels)),
      started: () => this.change(session, () => (this.life = { kind: 'running', server })),
      stopped: () => this.change(session, () => this.ended()),
      mayRun: () => this.mayRun(),
    });
    this.session = session;
    try {
      await session.start();
    } catch (error) {
      this.session = undefined;
      await session.stop();
      this.failed({ kind: 'broken', message: `${server.program} lsp does not start: ${String(error)}` });
    }
  }

  private async stopNow(): Promise<void> {
    const session = this.session;
    this.session = undefined;
    this.status = undefined;
    this.running = undefined;
    this.kernels.clear();
    await session?.stop();
    this.setLife({ kind: 'off' });
  }

  /** What it said holds no longer; the lenses stay until there are new ones. */
  private ended(): void {
    this.life = { kind: 'stopped' };
    this.status = undefined;
  }

  private failed(problem: Problem): void {
    this.setLife({ kind: 'failed', problem });
    this.output.error(problem.message);
    const settings = 'Open Settings';
    void vscode.window.showErrorMessage(`warpsmith: ${problem.message}`, settings).then((chosen) => {
      if (chosen)
        void vscode.commands.executeCommand('workbench.action.openSettings', 'warpsmith.server.path');
    });
  }

  /** Takes news only from the session of now. */
  private change(session: Session, change: () => unknown): void {
    if (session !== this.session) return;
    change();
    this.show();
  }

  private setLife(life: Life): void {
    this.life = life;
    this.show();
  }

  private show(): void {
    const document = vscode.window.activeTextEditor?.document;
    this.item.show(this.state, document !== undefined && concerns(document));
    void vscode.commands.executeCommand('setContext', 'warpsmith.hasKernels', this.state.kernels.length > 0);
  }

  private settingsChanged(change: vscode.ConfigurationChangeEvent): void {
    if (!change.affectsConfiguration('warpsmith.server')) return;
    clearTimeout(this.settingsTimer);
    this.settingsTimer = setTimeout(() => this.restartIfStarted(), SETTINGS_PAUSE_MS);
  }

  /** Another program, or another word about trust, which is said in the handshake. All other settings the server asks for. */
  private restartIfStarted(): void {
    if (this.life.kind !== 'off') void this.restart();
  }
}

function concerns(document: vscode.TextDocument): boolean {
  return (
    document.languageId === 'python' && document.uri.scheme === 'file' && mentionsTriton(document.getText())
  );
}
