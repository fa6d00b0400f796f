#!/usr/bin/env bash
# Installs a wheel into an empty environment and uses it as somebody does who has nothing else: tools/smoke.sh WHEEL.
# PYTHON is the interpreter (python3). The packages that the wheel needs come from the index that pip is configured for.
set -euo pipefail
wheel="$(realpath "$1")"
version="$(basename "$wheel" | cut -d- -f2)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH VIRTUAL_ENV
mkdir "$folder/home" "$folder/project"

step() { # prints the command, runs it, and fails as it does
  echo "+ $*"
  "$@" </dev/null
}

step "${PYTHON:-python3}" -m venv "$folder/venv"
PATH="$folder/venv/bin:$PATH"
step pip install --quiet --no-compile "$wheel" # the SDKs have thousands of modules that nothing imports
step pip check
export HOME="$folder/home" # no settings, caches or credentials of the caller
cd "$folder/project" # an empty folder, in no checkout

printed="$(step gpu-platform --version | tail -1)"
[ "$printed" = "$version" ] || { echo "error: gpu-platform --version printed $printed, the wheel is $version" >&2; exit 1; }
step gpu-platform --help >/dev/null

step gpu-platform init smoke --provider sandbox
step gpu-platform check smoke
step gpu-platform render smoke --out "$folder/rendered"
test -s "$folder/rendered/resources.json"
