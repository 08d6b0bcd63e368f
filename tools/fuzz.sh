#!/usr/bin/env bash
# Runs every fuzz target of a build folder for some seconds on top of its committed corpus. New inputs stay in the build
# folder; what crashes is left there too, to be added to fuzz/corpus/<target>/ with its mend.
set -euo pipefail
build=${1:?usage: tools/fuzz.sh BUILD_FOLDER SECONDS}
seconds=${2:?usage: tools/fuzz.sh BUILD_FOLDER SECONDS}
for target in "$build"/fuzz/fuzz_*; do
  [ -x "$target" ] && [ -f "$target" ] || continue
  name=$(basename "$target"); name=${name#fuzz_}
  mkdir -p "$build/corpus/$name"
  echo "== $name"
  "$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -artifact_prefix="$build/corpus/crash-$name-" \
    "$build/corpus/$name" "fuzz/corpus/$name"
done
