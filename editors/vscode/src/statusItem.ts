// The status item and its menu.

import * as vscode from 'vscode';

import { type State, view } from './status.js';

/** Shows the state while a Python file is looked at that concerns us. */
export class StatusItem implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem(
    'warpsmith.status',
    vscode.StatusBarAlignment.Left,
    0,
  );

  constructor() {
    this.item.name = 'warpsmith';
    this.item.command = 'warpsmith.menu';
  }

  show(state: State, isRelevant: boolean): void {
    if (!isRelevant) {
      this.item.hide();
      return;
    }
    const { text, tooltip, level } = view(state);
    const version = state.life.kind === 'running' ? ` ${state.life.server.version}` : '';
    this.item.text = text;
    this.item.tooltip = new vscode.MarkdownString(`**warpsmith${version}**\n\n${tooltip}`);
    this.item.backgroundColor =
      level === 'plain' ? undefined : new vscode.ThemeColor(`statusBarItem.${level}Background`);
    this.item.show();
  }

  dispose(): void {
    this.item.dispose();
  }
}

interface Entry extends vscode.QuickPickItem {
  readonly command?: string;
  readonly parameters?: readonly unknown[];
}

/** Offers what makes sense now. */
export async function showMenu(state: State): Promise<void> {
  const chosen = await vscode.window.showQuickPick(entries(state), {
    title: 'warpsmith',
    placeHolder: placeHolder(state),
  });
  if (chosen?.command) await vscode.commands.executeCommand(chosen.command, ...(chosen.parameters ?? []));
}

function entries(state: State): Entry[] {
  const { life, running, status } = state;
  const list: Entry[] = [];
  if (life.kind === 'running' && !state.isTrusted) {
    list.push({
      label: '$(shield) Trust this workspace…',
      detail: 'so that kernels can be run and judged',
      command: 'workbench.trust.manage',
    });
  } else if (life.kind === 'running') {
    if (running || status?.quiescent === false)
      list.push({ label: '$(debug-stop) Cancel the check', command: 'warpsmith.cancelCheck' });
    list.push({ label: '$(play) Check this file', command: 'warpsmith.checkFile' });
    list.push({ label: '$(symbol-method) Check the kernel at the cursor', command: 'warpsmith.checkKernel' });
  }
  list.push({ label: 'Help', kind: vscode.QuickPickItemKind.Separator });
  list.push({
    label: '$(pulse) Run the doctor',
    detail: 'which Python, torch, Triton, GPU and compilers are found, and what is missing',
    command: 'warpsmith.doctor',
  });
  if (status?.health === 'warning') {
    list.push({
      label: '$(package) Set up a Python environment',
      detail: 'one of warpsmith’s own, with torch and Triton; asks first',
      command: 'warpsmith.setup',
    });
  }
  list.push({ label: '$(output) Show the server’s log', command: 'warpsmith.showLog' });
  list.push({ label: '$(refresh) Restart the server', command: 'warpsmith.restartServer' });
  list.push({
    label: '$(gear) Settings',
    command: 'workbench.action.openSettings',
    parameters: ['@ext:warpsmith.warpsmith'],
  });
  return list;
}

function placeHolder(state: State): string {
  const { life, status } = state;
  if (life.kind === 'failed') return life.problem.message;
  if (status?.message) return status.message;
  return life.kind === 'running' ? `server ${life.server.version}` : `server ${life.kind}`;
}
