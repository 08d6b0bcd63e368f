#!/usr/bin/env python3
"""Prefill and decode of Holdfast and llama.cpp in one run: same file, same threads, flash attention, caches of like size.

llama-cpp-python is built in a throw-away environment under the user's cache folder. Its processor-specific build faults on
some AMX machines when gcc 12 makes it, so it is built with GGML_NATIVE off and AVX-512, VNNI and BF16 on where this
processor has them. --peer-python takes an interpreter that has it already.

Each of --caches is one of llama.cpp's; ours of as many bits a value are measured beside it, and our f16. Cells of the two
engines alternate, so that noise meets both; each is the median of --rounds. A whole run takes half an hour, most of it in
llama.cpp's prefill with a compressed cache: --models and --caches make parts of it.
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
path, threads, cache_type, prompts, depths = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *map(json.loads, sys.argv[4:6])
steps = 24
room = max(prompts + depths) + steps
llm = Llama(path, n_ctx=room + 64, n_batch=512, n_ubatch=512, n_threads=threads, n_threads_batch=threads, flash_attn=True,
            type_k=cache_type, type_v=cache_type, verbose=False)
vocab = llm.n_vocab()
tokens = [(i * 7919 + 100) % vocab for i in range(room)]

def timed(some):
    start = time.perf_counter()
    llm.eval(some)
    return time.perf_counter() - start

def tell(kind, n, rate):
    print(json.dumps({'kind': kind, 'n': n, 'tokens_per_s': rate}), flush=True)

timed(tokens[:32])
for n in sorted(set(prompts + depths)):
    llm.reset()
    seconds = timed(tokens[:n])
    if n in prompts:
        tell('prefill', n, n / seconds)
    if n in depths:
        tell('decode', n, 1 / sorted(timed([t]) for t in tokens[n:n + steps])[steps // 2])
"""

# llama.cpp's caches: the number that GGML has for the type, and our codecs of as many bits.
CACHES = {"f16": (1, ["f16"]), "q8_0": (8, ["int8", "affine8", "q8_0", "aura8"]), "q4_0": (2, ["affine4", "q4_0", "aura4"])}


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "holdfast"


def peer_python():
    """The interpreter of an environment that has llama-cpp-python; built on first use."""
    folder = cache_folder() / "peers"
    python = folder / "bin" / "python"
    if python.exists() and subprocess.run([str(python), "-c", "import llama_cpp"], capture_output=True).returncode == 0:
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


def ours(program, model, threads, prompts, depths, codec):
    """{(kind, tokens): tokens/s}"""
    out = subprocess.run([program, "bench", "decode", "-m", model, "-t", str(threads), "--prompts", ",".join(map(str, prompts)),
                          "--depths", ",".join(map(str, depths)), "--kv-cache", codec, "-n", "24", "--json"],
                         check=True, capture_output=True, text=True).stdout
    return {(c["kind"], c["tokens"] if c["kind"] == "prefill" else c["depth"]): c["tokens_per_s"]
            for c in json.loads(out)["cells"]}


def theirs(python, path, threads, prompts, depths, cache):
    """The same of llama.cpp."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(PEER)
        script.flush()
        out = subprocess.run([str(python), script.name, path, str(threads), str(CACHES[cache][0]), json.dumps(prompts),
                              json.dumps(depths)], check=True, capture_output=True, text=True).stdout
    return {(c["kind"], c["n"]): c["tokens_per_s"] for c in map(json.loads, out.splitlines())}


def medians(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def measure(args, python, model, path, cache):
    """One of llama.cpp's caches and ours of its size: a list of cells."""
    prompts, depths = (args.prompts, args.depths) if cache == "f16" else (args.compressed_prompts, args.compressed_depths)
    codecs = CACHES[cache][1]
    runs = {codec: [] for codec in dict.fromkeys(["f16"] + codecs)}
    peer_runs = []
    for _ in range(args.rounds):
        for codec in runs:
            runs[codec].append(ours(args.holdfast, model, args.threads, prompts, depths, codec))
        peer_runs.append(theirs(python, path, args.threads, prompts, depths, cache))
    rates, peer = {codec: medians(r) for codec, r in runs.items()}, medians(peer_runs)
    return [{"model": model, "kind": kind, "tokens": n, "cache": codec, "holdfast": rates[codec][kind, n],
             "of_own_f16": rates[codec][kind, n] / rates["f16"][kind, n], "peer_cache": cache, "llama_cpp": peer[kind, n],
             "ratio": rates[codec][kind, n] / peer[kind, n]} for kind, n in peer for codec in codecs]


def parse_arguments():
    numbers = lambda text: [int(n) for n in text.split(",")]
    words = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holdfast", default="build/holdfast")
    parser.add_argument("--peer-python", help="an interpreter that has llama-cpp-python; default: one is made")
    parser.add_argument("--models", type=words, default="smollm2,gemma3")
    parser.add_argument("--caches", type=words, default="f16,q8_0,q4_0")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--prompts", type=numbers, default="128,512,2048,8000")
    parser.add_argument("--depths", type=numbers, default="128,2048,8000")
    parser.add_argument("--compressed-prompts", type=numbers, default="2048", help="with a compressed cache")
    parser.add_argument("--compressed-depths", type=numbers, default="8000", help="with a compressed cache")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for cache in args.caches:
        if cache not in CACHES:
            parser.error(f"--caches: '{cache}' is none of {', '.join(CACHES)}")
    return args


def main():
    args = parse_arguments()
    python = args.peer_python or peer_python()
    listed = json.loads(subprocess.run([args.holdfast, "models", "--json"], check=True, capture_output=True, text=True).stdout)
    paths = {m["name"]: m["path"] for m in listed["models"]}
    print(f"load before: {os.getloadavg()[0]:.2f}, threads {args.threads}", file=sys.stderr)
    if not args.json:
        print("| model | | tokens | ours | tokens/s | of our f16 | llama.cpp | tokens/s | ratio |\n"
              "|---|---|---:|---|---:|---:|---|---:|---:|", flush=True)
    cells = []
    for model in args.models:
        subprocess.run([args.holdfast, "models", "fetch", model], check=True, capture_output=True)
        for cache in args.caches:
            measured = measure(args, python, model, paths[model], cache)
            cells += measured
            for c in [] if args.json else measured:
                print(f"| {c['model']} | {c['kind']} | {c['tokens']} | {c['cache']} | {c['holdfast']:.1f} | {c['of_own_f16']:.2f} | "
                      f"{c['peer_cache']} | {c['llama_cpp']:.1f} | {c['ratio']:.2f} |", flush=True)
    if args.json:
        print(json.dumps({"threads": args.threads, "cells": cells}))


if __name__ == "__main__":
    main()
