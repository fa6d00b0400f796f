#!/usr/bin/env bash
# Check stack files: check.sh [--github FOLDER] [FILE...]
# Exits with the highest exit code of `gpu-platform check`: 1 if a mandatory rule is broken, 2 if a file is not valid.
# It prints the findings of files with problems. With --github, it prints the findings of all files as annotations of
# GitHub Actions and keeps the SARIF logs in the folder. Files without a platform are skipped, because stack files of
# other programs can have similar names. A file that resembles a file of this program is checked, and its errors are
# reported.
set -euo pipefail

project="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
bin="$project/.venv/bin"
# Before its first run, the checkout of a hook or an action has no virtual environment.
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
  # Also match a misspelt key, pools without the key, and configuration from Pulumi ESC, also in UTF-16.
  grep -Eqi 'gpu[-_ ]?pl?at|pools *:|^environment *:' <(tr -d '\000' < "$file") || continue
  code=0
  name="${file//%/%25}"
  log="$logs/${name//\//%2F}.sarif"
  "$bin/gpu-platform" check "$file" --format sarif > "$log" 2> "$folder/stderr" || code=$?
  if [ ! -s "$log" ]; then # the check stopped before it wrote findings
    cat "$folder/stderr" >&2
    rm -f "$log"
  elif [ "$code" != 0 ] || [ "$form" = github ]; then
    "$bin/python" "$project/examples/ci/findings.py" "$form" "$log"
  fi
  if [ "$code" -gt "$worst" ]; then worst="$code"; fi
done
exit "$worst"
