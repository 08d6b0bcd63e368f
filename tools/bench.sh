#!/usr/bin/env bash
# Every measurement that needs no peer: the program's own benches, then the micro-benchmarks of kernels.
set -euo pipefail
build=${1:?usage: tools/bench.sh BUILD_FOLDER}
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
"$build/holdfast" bench append
"$build/holdfast" bench attention --codecs all --storage contiguous,paged --heads 9/3 --head-dim 64 --rows 8192,65536
"$build/holdfast" bench attention --codecs f16,int8 --heads 4/1 --head-dim 256 --rows 8192,65536
for model in smollm2 gemma3; do
  if "$build/holdfast" models --json | python3 -c "
import json, sys
sys.exit(not any(m['name'] == '$model' and m['present'] for m in json.load(sys.stdin)['models']))"; then
    "$build/holdfast" bench decode -m "$model" --depths 128,2048 --prompts 128,512,2048
  fi
done
for bench in "$build"/bench/*_bench; do
  [ -x "$bench" ] && "$bench" --benchmark_min_time=0.1
done
