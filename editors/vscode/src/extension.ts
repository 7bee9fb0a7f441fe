// The extension: starts the server for the first file that mentions Triton, and owns all that is shown of it.

import * as vscode from 'vscode';

import { registerCommands } from './commands.js';
import { Owner } from './owner.js';

let owner: Owner | undefined;

export function activate(context: vscode.ExtensionContext): void {
  owner = new Owner(context);
  context.subscriptions.push(owner, ...registerCommands(owner));
}

export async function deactivate(): Promise<void> {
  await owner?.stop();
}
