// A real VS Code in a headless browser: the server of code-server's npm package without its own front end, with
// our vsix installed, driven by Playwright.
//
// VSCODE_NODE, VSCODE_MAIN and VSCODE_CHROMIUM name node, VS Code's server-main.js and the browser.

import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

import { chromium } from 'playwright-core';

/** The server interprets kernels on two cores that others may use too. */
export const LIMIT_MS = 40_000;

/** Quiet, and without anything that completes, closes or fetches by itself. */
const USER_SETTINGS = {
  'security.workspace.trust.enabled': false,
  'workbench.startupEditor': 'none',
  'workbench.tips.enabled': false,
  'workbench.secondarySideBar.defaultVisibility': 'hidden',
  'telemetry.telemetryLevel': 'off',
  'update.mode': 'none',
  'extensions.autoUpdate': false,
  'extensions.autoCheckUpdates': false,
  'chat.disableAIFeatures': true,
  'git.enabled': false,
  'editor.minimap.enabled': false,
  'editor.autoClosingBrackets': 'never',
  'editor.quickSuggestions': { other: 'off', comments: 'off', strings: 'off' },
  'editor.suggestOnTriggerCharacters': false,
  'editor.parameterHints.enabled': false,
  'editor.stickyScroll.enabled': false,
  'editor.occurrencesHighlight': 'off',
  // Otherwise a terminal is a picture, in which no text can be found.
  'terminal.integrated.gpuAcceleration': 'off',
};

function freePort() {
  return new Promise((resolve) => {
    const listener = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = listener.address();
      listener.close(() => resolve(port));
    });
  });
}

function write(file, text) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
}

const common = ['--accept-server-license-terms', '--telemetry-level', 'off'];

/** Unpacks the vsix once for all servers. */
export function install(vsix) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'warpsmith-vscode-ext-'));
  const places = [
    '--extensions-dir',
    path.join(folder, 'ext'),
    '--server-data-dir',
    folder,
    '--user-data-dir',
    path.join(folder, 'data'),
  ];
  const options = { env: { ...process.env, HOME: folder, EXTENSIONS_GALLERY: '{}' }, stdio: 'pipe' };
  execFileSync(
    process.env.VSCODE_NODE,
    [process.env.VSCODE_MAIN, ...common, ...places, '--install-extension', vsix],
    options,
  );
  return {
    extensions: path.join(folder, 'ext'),
    remove: () => fs.rmSync(folder, { recursive: true, force: true }),
  };
}

export async function browser() {
  const quiet = [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
  ];
  return chromium.launch({
    executablePath: process.env.VSCODE_CHROMIUM,
    args: [...quiet, '--disable-component-update', '--disable-sync'],
  });
}

/** One window on a folder of its own. */
export class Window {
  /**
   * `files` are written into the folder, the first is opened. `settings` are the user's, `machineSettings` the remote
   * machine's, which is where settings of machine scope live.
   */
  static async open(browser, { extensions, files, settings = {}, machineSettings = {}, environment = {} }) {
    const window = new Window();
    window.home = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'warpsmith-vscode-')));
    window.folder = path.join(window.home, 'project');
    write(
      path.join(window.home, 'data/User/settings.json'),
      JSON.stringify({ ...USER_SETTINGS, ...settings }),
    );
    window.setMachine(machineSettings);
    for (const [name, text] of Object.entries(files)) write(path.join(window.folder, name), text);

    window.port = await freePort();
    const places = [
      '--extensions-dir',
      extensions,
      '--server-data-dir',
      window.home,
      '--user-data-dir',
      path.join(window.home, 'data'),
    ];
    const listen = [
      '--host',
      '127.0.0.1',
      '--port',
      String(window.port),
      '--without-connection-token',
      '--reconnection-grace-time',
      '1',
    ];
    // In a process group of its own, so that the end of it ends the extension host too.
    window.server = spawn(
      process.env.VSCODE_NODE,
      [process.env.VSCODE_MAIN, ...common, ...places, ...listen],
      {
        env: { ...process.env, HOME: window.home, EXTENSIONS_GALLERY: '{}', ...environment },
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      },
    );
    await new Promise((resolve, reject) => {
      window.server.stdout.on(
        'data',
        (text) => String(text).includes('Extension host agent listening') && resolve(),
      );
      window.server.on('exit', (status) => reject(new Error(`VS Code's server ended with status ${status}`)));
    });
    window.context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    window.page = await window.context.newPage();
    window.page.setDefaultTimeout(LIMIT_MS);
    await window.show(Object.keys(files)[0]);
    return window;
  }

  /** Sets the settings of the remote machine; VS Code sees the change of the file. */
  setMachine(settings) {
    write(path.join(this.home, 'data/Machine/settings.json'), JSON.stringify(settings));
  }

  /** Loads the workbench with one file open. */
  async show(name) {
    const authority = `127.0.0.1:${this.port}`;
    const payload = JSON.stringify([
      ['openFile', `vscode-remote://${authority}${path.join(this.folder, name)}`],
    ]);
    await this.page.goto(`http://${authority}/?folder=${this.folder}&payload=${encodeURIComponent(payload)}`);
    await this.page.locator('.monaco-editor .view-line').first().waitFor();
  }

  /** The lenses as they stand in the editor. */
  async lenses() {
    const texts = await this.page.locator('.codelens-decoration').allInnerTexts();
    return texts.map((text) => text.trim()).filter(Boolean);
  }

  lens(text) {
    return this.page.locator('.codelens-decoration', { hasText: text }).first();
  }

  /** Clicks on a lens until what it leads to is seen: one that is just drawn anew takes no click. */
  async press(text, seen) {
    await eventually(async () => {
      await this.lens(text).click({ timeout: 3000 });
      await seen({ timeout: 3000 });
    });
  }

  get squiggles() {
    return this.page.locator('.squiggly-error');
  }

  get status() {
    return this.page.locator('.statusbar-item', { hasText: 'warpsmith' }).first();
  }

  /** Waits until the status item says `words`. */
  async awaitStatus(words) {
    await this.page.locator('.statusbar-item', { hasText: words }).first().waitFor();
  }

  /** Puts the cursor at the end of a line, 1-based. */
  async goTo(line) {
    await this.page.keyboard.press('Control+g');
    const input = this.page.locator('.quick-input-widget input').first();
    await input.waitFor();
    await input.fill(`:${line}`);
    await this.page.keyboard.press('Enter');
    await this.page.locator('.quick-input-widget').waitFor({ state: 'hidden' });
    await this.page.keyboard.press('End');
  }

  /** Runs a command of the palette by its whole title. */
  async command(title) {
    await eventually(async () => {
      await this.page.keyboard.press('F1');
      const input = this.page.locator('.quick-input-widget input').first();
      await input.waitFor({ timeout: 2000 });
      await input.fill(`>${title}`);
      await this.page
        .locator('.quick-input-list .monaco-list-row.focused', { hasText: title })
        .waitFor({ timeout: 3000 });
    });
    await this.page.keyboard.press('Enter');
  }

  /** Opens a file of the folder by its name; resolves when its tab is there. */
  async openFile(name) {
    await eventually(async () => {
      await this.page.keyboard.press('Control+p');
      const input = this.page.locator('.quick-input-widget input').first();
      await input.waitFor({ timeout: 2000 });
      await input.fill(name);
      await this.page
        .locator('.quick-input-list .monaco-list-row.focused', { hasText: name })
        .waitFor({ timeout: 3000 });
    });
    await this.page.keyboard.press('Enter');
    await this.page.locator('.tab.active', { hasText: name }).waitFor();
  }

  async save() {
    await this.page.keyboard.press('Control+s');
    await this.page.locator('.tab.active.dirty').waitFor({ state: 'detached' });
  }

  /** Keeps what is on the screen, where somebody asked for it. */
  async picture(name) {
    const folder = process.env.VSCODE_PICTURES;
    if (folder)
      await this.page.screenshot({ path: path.join(folder, `${name.replaceAll(/[^\w-]+/g, '-')}.png`) });
  }

  /** The processes of this window that run our program, by their ids. */
  programs() {
    const ours = (pid) => {
      try {
        const [program, verb] = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        const inherited = fs.readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
        return program.endsWith('/warpsmith') && verb === 'lsp' && inherited.includes(`HOME=${this.home}`);
      } catch {
        return false;
      }
    };
    return fs
      .readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .filter(ours);
  }

  async close() {
    await this.context?.close();
    try {
      process.kill(-this.server.pid, 'SIGKILL');
    } catch {
      // It has ended already.
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
    fs.rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Repeats `attempt` until it does not throw. */
export async function eventually(attempt, limitMs = LIMIT_MS) {
  const until = Date.now() + limitMs;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (Date.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
