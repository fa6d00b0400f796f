#!/usr/bin/env bash
# Review every stack file that differs from a commit: review.sh COMMIT COMMENT.md
# Exits with the highest exit code of `gpu-platform review`: 1 if a rule stops the change, 2 if a file is not valid.
# With GPU_PLATFORM_PREVIEW=1, each stack is also previewed, which needs read access to its cluster and its state.
set -euo pipefail

commit="$1" comment="$2" worst=0
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
git worktree add --quiet --detach "$folder/before" "$commit"
trap 'git worktree remove --force "$folder/before"; rm -rf "$folder"' EXIT

: > "$comment"
while IFS= read -r -d '' file; do
  if [ ! -e "$file" ]; then
    printf '### gpu-platform: `%s`\n\n**The stack file is removed. Its resources are not destroyed, so run `gpu-platform destroy` first.**\n\n' \
      "$(basename "$file")" >> "$comment"
    continue
  fi
  options=(--base "$folder/before/$file")
  if [ "${GPU_PLATFORM_PREVIEW:-0}" = 1 ]; then
    # Errors are in the log of the job. The comment reports that there is no preview.
    gpu-platform preview "$file" --format json > "$folder/preview.json" || true
    options+=(--preview "$folder/preview.json")
  fi
  code=0
  gpu-platform review "$file" "${options[@]}" >> "$comment" || code=$?
  if [ "$code" -gt "$worst" ]; then worst="$code"; fi
done < <(git diff --name-only --no-renames -z "$commit" -- 'stacks/Pulumi.*.yaml')

[ -s "$comment" ] || echo 'gpu-platform: no stack file changes.' > "$comment"
exit "$worst"
