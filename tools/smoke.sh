#!/usr/bin/env bash
# Installs a wheel into an empty environment and uses it like a user without a checkout: tools/smoke.sh WHEEL.
# PYTHON is the interpreter, by default python3. The wheel's dependencies come from the index in pip's configuration.
set -euo pipefail
wheel="$(realpath "$1")"
version="$(basename "$wheel" | cut -d- -f2)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH VIRTUAL_ENV
mkdir "$folder/home" "$folder/project"

step() { # prints and runs a command, and fails if the command fails
  echo "+ $*"
  "$@" </dev/null
}

step "${PYTHON:-python3}" -m venv "$folder/venv"
PATH="$folder/venv/bin:$PATH"
step pip install --quiet --no-compile "$wheel" # most of the SDKs' thousands of modules are never imported
step pip check
export HOME="$folder/home" # without the caller's settings, caches and credentials
cd "$folder/project" # an empty folder outside any checkout

printed="$(step gpu-platform --version | tail -1)"
[ "$printed" = "$version" ] || { echo "error: gpu-platform --version printed $printed, the wheel is $version" >&2; exit 1; }
step gpu-platform --help >/dev/null

step gpu-platform init smoke --provider sandbox
step gpu-platform check smoke
step gpu-platform render smoke --out "$folder/rendered"
test -s "$folder/rendered/resources.json"
