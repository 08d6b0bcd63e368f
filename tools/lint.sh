#!/usr/bin/env bash
# clang-format on every file and clang-tidy on those that differ from the main branch (all with LINT_ALL=1).
set -euo pipefail
build=${1:?usage: tools/lint.sh BUILD_FOLDER}
"$(dirname "$0")/setup.sh" lint
git ls-files '*.cc' '*.h' | xargs clang-format --dry-run -Werror
if [ "${LINT_ALL:-0}" = 1 ]; then
  files=$(git ls-files 'src/*.cc' | grep -v /kernels/)
else
  files=$(git diff --name-only --diff-filter=d HEAD~1 -- 'src/*.cc' | grep -v /kernels/ || true)
fi
[ -z "$files" ] && exit 0
# The build folder's flags are gcc's.
# shellcheck disable=SC2086
clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option $files
