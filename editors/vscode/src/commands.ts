// The commands of the palette and of the menu.

import * as vscode from 'vscode';

import { kernelAt } from './lenses.js';
import { newestLog } from './log.js';
import type { Owner } from './owner.js';
import { doctorArguments } from './settings.js';
import { showMenu } from './statusItem.js';

export function registerCommands(owner: Owner): vscode.Disposable[] {
  const commands: Record<string, () => unknown> = {
    checkFile: () => check(owner, undefined),
    checkKernel: () => checkKernel(owner),
    cancelCheck: () => onServer(owner, 'warpsmith.cancel'),
    showLog: () => showLog(owner),
    restartServer: () => owner.restart(),
    doctor: () => inTerminal(owner, 'doctor', doctorArguments(owner.read, activeFile()?.fsPath)),
    setup: () => inTerminal(owner, 'setup', ['setup']),
    menu: () => showMenu(owner.state),
  };
  return Object.entries(commands).map(([name, run]) =>
    vscode.commands.registerCommand(`warpsmith.${name}`, run),
  );
}

/** The text in the editor is judged, saved or not. */
async function check(owner: Owner, kernel: string | undefined): Promise<void> {
  const file = activeFile();
  if (!file) {
    void vscode.window.showInformationMessage('warpsmith: open the Python file of a kernel first.');
    return;
  }
  await onServer(owner, 'warpsmith.check', { uri: file.toString(), ...(kernel ? { kernel } : {}) });
}

async function checkKernel(owner: Owner): Promise<void> {
  const line = vscode.window.activeTextEditor?.selection.active.line ?? 0;
  const kernel = kernelAt(owner.state.kernels, line);
  if (!kernel) {
    void vscode.window.showInformationMessage('warpsmith: no kernel begins at the cursor or above it.');
    return;
  }
  await check(owner, kernel.name);
}

/** A command of the server; those exist as commands of VS Code while it runs. */
async function onServer(owner: Owner, command: string, ...parameters: unknown[]): Promise<void> {
  await owner.start();
  const { life } = owner.state;
  if (life.kind !== 'running') {
    const why =
      life.kind === 'failed' ? life.problem.message : 'the server does not run; restart it, and see its log.';
    void vscode.window.showErrorMessage(`warpsmith: ${why}`);
    return;
  }
  try {
    await vscode.commands.executeCommand(command, ...parameters);
  } catch (error) {
    void vscode.window.showErrorMessage(
      `warpsmith: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

async function showLog(owner: Owner): Promise<void> {
  const file = await newestLog(process.env);
  if (!file) {
    owner.output.show();
    return;
  }
  const document = await vscode.workspace.openTextDocument(vscode.Uri.file(file));
  const editor = await vscode.window.showTextDocument(document, { preview: true });
  const end = document.lineAt(document.lineCount - 1).range;
  editor.revealRange(end);
}

/** Runs the program in a terminal that stays open when it has ended. */
async function inTerminal(owner: Owner, name: string, parameters: string[]): Promise<void> {
  // The doctor starts the Python that it finds, which may be one of the folder.
  if (!owner.mayRun()) return;
  const server = await owner.findServer();
  if ('kind' in server) {
    void vscode.window.showErrorMessage(`warpsmith: ${server.message}`);
    return;
  }
  const task = new vscode.Task(
    { type: 'warpsmith', command: name },
    vscode.TaskScope.Workspace,
    name,
    'warpsmith',
    new vscode.ProcessExecution(server.program, parameters),
    [],
  );
  task.presentationOptions = {
    reveal: vscode.TaskRevealKind.Always,
    focus: name === 'setup',
    clear: true,
    showReuseMessage: false,
  };
  await vscode.tasks.executeTask(task);
}

/** The Python file that is looked at. */
function activeFile(): vscode.Uri | undefined {
  const document = vscode.window.activeTextEditor?.document;
  return document?.languageId === 'python' && document.uri.scheme === 'file' ? document.uri : undefined;
}
