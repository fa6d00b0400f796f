#!/usr/bin/env bash
# Check stack files: check.sh [--github FOLDER] [FILE...]
# Exits with the worst exit code of `gpu-platform check`: 1 where a mandatory rule is broken, 2 where a file is not
# valid. The findings of files with problems are printed; with --github those of all files, as annotations of GitHub
# Actions, and the SARIF logs are left in the folder. Files without a platform are left out: other programs have stack
# files of such names, too. One that looks like a file of this program is checked, which says what is wrong with it.
set -euo pipefail

project="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
bin="$project/.venv/bin"
# The checkout of a hook or an action has no environment before its first run.
[ -x "$bin/gpu-platform" ] || make --silent -C "$project" install >&2

form=plain
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
logs="$folder"
if [ "${1:-}" = --github ]; then
  form=github logs="$2"
  shift 2
  mkdir -p "$logs"
fi

worst=0
for file in "$@"; do
  if [ ! -f "$file" ]; then
    echo "error: $file: no such file" >&2
    worst=2
    continue
  fi
  # A misspelt key, pools without one, configuration from Pulumi ESC.
  grep -Eqi 'gpu[-_ ]?pl?at|pools *:|^environment *:' "$file" || continue
  code=0
  name="${file//%/%25}"
  log="$logs/${name//\//%2F}.sarif"
  "$bin/gpu-platform" check "$file" --format sarif > "$log" 2> "$folder/stderr" || code=$?
  if [ ! -s "$log" ]; then # it stopped before it found anything
    cat "$folder/stderr" >&2
    rm -f "$log"
  elif [ "$code" != 0 ] || [ "$form" = github ]; then
    "$bin/python" "$project/examples/ci/findings.py" "$form" "$log"
  fi
  if [ "$code" -gt "$worst" ]; then worst="$code"; fi
done
exit "$worst"
