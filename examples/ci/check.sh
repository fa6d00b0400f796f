#!/usr/bin/env bash
# Check stack files: check.sh [--sarif FOLDER] [FILE...]
# Exits with the worst exit code of `gpu-platform check`: 1 where a mandatory rule is broken, 2 where a file is not
# valid. With --sarif the findings are written to the folder, and as annotations of GitHub Actions to the log. Files
# without a platform are left out: other programs have stack files of such names, too.
set -euo pipefail

project="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
command="$project/.venv/bin/gpu-platform"
# A checkout of a hook or an action has no environment before its first run.
[ -x "$command" ] || make --silent -C "$project" install >&2

sarif=""
if [ "${1:-}" = --sarif ]; then
  sarif="$2"
  shift 2
  mkdir -p "$sarif"
fi

worst=0
output="$(mktemp)"
trap 'rm -f "$output"' EXIT
for file in "$@"; do
  grep -q 'gpu-platform:platform' "$file" || continue
  code=0
  if [ -n "$sarif" ]; then
    log="$sarif/$(printf '%s' "$file" | tr '/' '-').sarif"
    "$command" check "$file" --format sarif > "$log" || code=$?
    "$project/.venv/bin/python" "$project/examples/ci/annotate.py" "$log"
  else
    "$command" check "$file" > "$output" 2>&1 || code=$?
    # Its decisions are no findings: a hook is silent where everything holds.
    [ "$code" = 0 ] || grep -E '^(error|mandatory|advisory|not checked|warning| +-|  )' "$output" | grep -v '^  [^-]*: .*$' || true
  fi
  if [ "$code" -gt "$worst" ]; then worst="$code"; fi
done
exit "$worst"
