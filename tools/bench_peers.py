#!/usr/bin/env python3
"""Prefill and decode of Holdfast and llama.cpp in one run: same file, same threads, f16 cache, flash attention.

llama-cpp-python is built in a throw-away environment under the user's cache folder. Its processor-specific build faults on
some AMX machines when gcc 12 makes it, so it is built with GGML_NATIVE off and AVX-512, VNNI and BF16 on where this
processor has them. Cells of the two engines alternate, so that noise meets both; each is the median of --rounds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

PEER = """
import json, sys, time
from llama_cpp import Llama
path, threads, work = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
depth = max(n for _, n in work) + 64
llm = Llama(path, n_ctx=min(depth + 64, 8192 if 'SmolLM2' in path else 32768), n_batch=512, n_ubatch=512, n_threads=threads,
            n_threads_batch=threads, flash_attn=True, verbose=False)
vocab = llm.n_vocab()
tokens = [(i * 7919 + 100) % vocab for i in range(depth)]
for kind, n in work:
    llm.reset()
    start = time.perf_counter()
    llm.eval(tokens[:n])
    seconds = time.perf_counter() - start
    if kind == 'prefill':
        print(json.dumps({'kind': kind, 'n': n, 'tokens_per_s': n / seconds}), flush=True)
        continue
    steps = []
    for i in range(24):
        start = time.perf_counter()
        llm.eval([tokens[n + i]])
        steps.append(time.perf_counter() - start)
    steps.sort()
    print(json.dumps({'kind': kind, 'n': n, 'tokens_per_s': 1 / steps[len(steps) // 2]}), flush=True)
"""


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "holdfast"


def peer_python():
    """The interpreter of an environment that has llama-cpp-python; built on first use."""
    folder = cache_folder() / "peers"
    python = folder / "bin" / "python"
    if subprocess.run([str(python), "-c", "import llama_cpp"], capture_output=True).returncode == 0 if python.exists() else False:
        return python
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    flags = set()
    for line in open("/proc/cpuinfo"):
        if line.startswith("flags"):
            flags = set(line.split())
            break
    wanted = {"avx": "GGML_AVX", "avx2": "GGML_AVX2", "fma": "GGML_FMA", "f16c": "GGML_F16C", "bmi2": "GGML_BMI2",
              "avx512f": "GGML_AVX512", "avx512_vbmi": "GGML_AVX512_VBMI", "avx512vbmi": "GGML_AVX512_VBMI",
              "avx512_vnni": "GGML_AVX512_VNNI", "avx512_bf16": "GGML_AVX512_BF16"}
    options = ["-DGGML_NATIVE=OFF"] + sorted({f"-D{option}=ON" for flag, option in wanted.items() if flag in flags})
    env = dict(os.environ, CMAKE_ARGS=" ".join(options))
    print("building llama-cpp-python with", env["CMAKE_ARGS"], file=sys.stderr)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-binary=llama-cpp-python",
                    "llama-cpp-python"], check=True, env=env)
    return python


def ours(program, model, threads, work, codec):
    prompts = ",".join(str(n) for kind, n in work if kind == "prefill")
    depths = ",".join(str(n) for kind, n in work if kind == "decode")
    out = subprocess.run([program, "bench", "decode", "-m", model, "-t", str(threads), "--prompts", prompts, "--depths", depths,
                          "--kv-cache", codec, "-n", "24", "--json"], check=True, capture_output=True, text=True).stdout
    return {(c["kind"], c["tokens"] if c["kind"] == "prefill" else c["depth"]): c["tokens_per_s"]
            for c in json.loads(out)["cells"]}


def theirs(python, path, threads, work):
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(PEER)
        script.flush()
        out = subprocess.run([str(python), script.name, path, str(threads), json.dumps(work)], check=True, capture_output=True,
                             text=True).stdout
    return {(c["kind"], c["n"]): c["tokens_per_s"] for c in map(json.loads, out.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holdfast", default="build/holdfast")
    parser.add_argument("--models", default="smollm2,gemma3")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--prompts", default="128,512,2048,8000")
    parser.add_argument("--depths", default="128,2048,8000")
    parser.add_argument("--kv-cache", default="f16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    work = [("prefill", int(n)) for n in args.prompts.split(",")] + [("decode", int(n)) for n in args.depths.split(",")]
    python = peer_python()
    listed = json.loads(subprocess.run([args.holdfast, "models", "--json"], check=True, capture_output=True, text=True).stdout)
    paths = {m["name"]: m["path"] for m in listed["models"]}
    print(f"load before: {os.getloadavg()[0]:.2f}, threads {args.threads}, cache {args.kv_cache}", file=sys.stderr)
    result = []
    for model in args.models.split(","):
        subprocess.run([args.holdfast, "models", "fetch", model], check=True, capture_output=True)
        samples = {w: ([], []) for w in work}
        for _ in range(args.rounds):
            a = ours(args.holdfast, model, args.threads, work, args.kv_cache)
            b = theirs(python, paths[model], args.threads, work)
            for w in work:
                samples[w][0].append(a[w])
                samples[w][1].append(b[w])
        for (kind, n), (a, b) in samples.items():
            a, b = statistics.median(a), statistics.median(b)
            result.append({"model": model, "kind": kind, "tokens": n, "holdfast": a, "llama_cpp": b, "ratio": a / b})
    if args.json:
        print(json.dumps({"threads": args.threads, "kv_cache": args.kv_cache, "cells": result}))
        return
    print("| model | | tokens | Holdfast tokens/s | llama.cpp tokens/s | ratio |\n|---|---|---:|---:|---:|---:|")
    for c in result:
        print(f"| {c['model']} | {c['kind']} | {c['tokens']} | {c['holdfast']:.1f} | {c['llama_cpp']:.1f} | {c['ratio']:.2f} |")


if __name__ == "__main__":
    main()
