#!/usr/bin/env python3
"""Streaming clients on Holdfast's server and on OpenVINO GenAI's continuous batching, in one run: same file, same threads.

Ours is measured over HTTP by `holdfast bench serve`. OpenVINO GenAI has no server: its pipeline is driven in its own
process, step by step, with a closed loop of as many requests; that saves it the connections, the JSON and the text. It is
installed from PyPI in a throw-away environment under the user's cache folder; --peer-python takes an interpreter that has
it. --also NAME=URL puts the same load on any other server that runs already (llama.cpp's, vLLM's).

The engines take turns, cell by cell, so that noise meets both; each cell is the median of --rounds. Prompts are new in
every cell and round. The peer's cache and its precision are its own defaults.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import threading

PEER = """
import json, sys, time
import numpy, openvino, openvino_genai

path, threads, cache_gib = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
scheduler = openvino_genai.SchedulerConfig()
scheduler.cache_size = cache_gib
scheduler.max_num_batched_tokens = 512
scheduler.dynamic_split_fuse = True
scheduler.enable_prefix_caching = True
pipeline = openvino_genai.ContinuousBatchingPipeline(path, scheduler, 'CPU', {'INFERENCE_NUM_THREADS': threads})
print(json.dumps({'version': openvino_genai.__version__}), flush=True)


def run(cell):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = cell['output_tokens']
    config.ignore_eos, config.do_sample = True, False
    waiting = list(enumerate(cell['prompts']))
    live, ttft, gaps, tokens = {}, [], [], 0

    def submit():
        number, ids = waiting.pop(0)
        prompt = openvino.Tensor(numpy.array([ids], dtype=numpy.int64))
        began = time.perf_counter()
        live[number] = [pipeline.add_request(cell['first_id'] + number, prompt, config), began, None]

    start = time.perf_counter()
    for _ in range(min(cell['clients'], len(waiting))):
        submit()
    while live:
        pipeline.step()
        for number, entry in list(live.items()):
            handle = entry[0]
            while handle.can_read():
                came = sum(len(output.generated_ids) for output in handle.read().values())
                now = time.perf_counter()
                if came:
                    (ttft if entry[2] is None else gaps).append(1e3 * (now - (entry[1] if entry[2] is None else entry[2])))
                    entry[2] = now
                    tokens += came
            if handle.get_status() != openvino_genai.GenerationStatus.RUNNING:
                del live[number]
                if waiting:
                    submit()
    seconds = time.perf_counter() - start
    rank = lambda values, p: sorted(values)[(len(values) * p + 99) // 100 - 1]
    return {'output_tokens_per_s': tokens / seconds, 'output_tokens': tokens,
            'ttft_ms': {'p50': rank(ttft, 50), 'p99': rank(ttft, 99)}, 'gap_ms': {'p50': rank(gaps, 50), 'p99': rank(gaps, 99)}}


for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
"""


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "holdfast"


def peer_python():
    """The interpreter of an environment that has openvino-genai; made on first use."""
    folder = cache_folder() / "serve-peers"
    python = folder / "bin" / "python"
    if not python.exists() or subprocess.run([str(python), "-c", "import openvino_genai"], capture_output=True).returncode != 0:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", "openvino-genai"], check=True)
    return python


class Peer:
    def __init__(self, python, path, threads, cache_gib):
        self.process = subprocess.Popen([str(python), "-c", PEER, path, str(threads), str(cache_gib)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.version = self.read()["version"]
        self.first_id = 0

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):  # the pipeline prints what it thinks too
                return json.loads(line)
        raise SystemExit("bench-serve: OpenVINO GenAI ended early")

    def measure(self, cell, seed):
        draw = random.Random(seed)
        token = lambda: draw.randrange(1000, 40000)
        shared = [token() for _ in range(cell.shared)]
        prompts = [shared + [token() for _ in range(cell.prompt_tokens - cell.shared)] for _ in range(cell.requests)]
        request = {"clients": cell.clients, "prompts": prompts, "output_tokens": cell.output_tokens, "first_id": self.first_id}
        self.first_id += len(prompts)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(60)


class Serve:
    """`holdfast serve` on a free port."""

    def __init__(self, program, model, threads, parallel, more):
        self.process = subprocess.Popen([program, "serve", "-m", model, "-t", str(threads), "--port", "0", "--parallel",
                                         str(parallel), *more], stderr=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stderr:
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                self.url = found.group(1)
                break
        if self.url is None:
            raise SystemExit("bench-serve: holdfast serve ended early")
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


class Cell:
    def __init__(self, args, clients, shared, requests_per_client):
        self.clients, self.shared = clients, shared
        self.requests = clients * requests_per_client
        self.prompt_tokens, self.output_tokens = args.prompt_tokens, args.output_tokens


def load(program, url, cell, seed):
    out = subprocess.run([program, "bench", "serve", "--url", url, "--clients", str(cell.clients), "--requests",
                          str(cell.requests), "--prompt-tokens", str(cell.prompt_tokens), "--shared-tokens", str(cell.shared),
                          "-n", str(cell.output_tokens), "--seed", str(seed), "--json"],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    figures = json.loads(out)
    if figures["errors"]:
        raise SystemExit(f"bench-serve: {url}: {figures['errors']} errors: {figures['error_messages']}")
    return figures


def median_of(runs):
    """Of every number in runs of one shape."""
    first = runs[0]
    if isinstance(first, dict):
        return {key: median_of([run[key] for run in runs]) for key in first}
    return statistics.median(runs) if isinstance(first, (int, float)) else first


def measure(args, cell, peer, seeds):
    """{engine: figures}"""
    engines = {}
    ours = Serve(args.holdfast, args.model, args.threads, cell.clients, args.serve_option)
    try:
        warm_up = Cell(args, 1, 0, 1)
        load(args.holdfast, ours.url, warm_up, next(seeds))
        if peer:
            peer.measure(warm_up, next(seeds))
        for _ in range(args.rounds):
            seed = next(seeds)
            engines.setdefault("holdfast", []).append(load(args.holdfast, ours.url, cell, seed))
            if peer:
                engines.setdefault("openvino-genai", []).append(peer.measure(cell, seed))
            for name, url in args.also:
                engines.setdefault(name, []).append(load(args.holdfast, url, cell, seed))
    finally:
        ours.stop()
    return {name: median_of(runs) for name, runs in engines.items()}


def parse_arguments():
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holdfast", default="build/holdfast")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--peer-python", help="an interpreter that has openvino-genai; default: one is made")
    parser.add_argument("--no-peer", action="store_true", help="ours alone, and --also")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=URL", help="another server that runs already")
    parser.add_argument("--serve-option", action="append", default=[], help="passed on to holdfast serve: --serve-option=--cascade=off")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--clients", type=numbers, default="8,32")
    parser.add_argument("--shared", type=numbers, default="0,400", help="tokens that all prompts begin with")
    parser.add_argument("--prompt-tokens", type=int, default=500)
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument("--requests-per-client", type=int, default=3)
    parser.add_argument("--peer-cache-gib", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; a server that runs already remembers prompts")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.also = [tuple(also.split("=", 1)) for also in args.also]
    if any(len(also) != 2 for also in args.also):
        parser.error("--also: must be NAME=URL")
    return args


def main():
    args = parse_arguments()
    listed = json.loads(subprocess.run([args.holdfast, "models", "--json"], check=True, capture_output=True, text=True).stdout)
    path = {m["name"]: m["path"] for m in listed["models"]}.get(args.model, args.model)
    if path != args.model:
        subprocess.run([args.holdfast, "models", "fetch", args.model], check=True, capture_output=True)
    peer = None if args.no_peer else Peer(args.peer_python or peer_python(), path, args.threads, args.peer_cache_gib)
    version = f", openvino-genai {peer.version}" if peer else ""
    print(f"load before: {os.getloadavg()[0]:.2f}, threads {args.threads}{version}", file=sys.stderr)
    if not args.json:
        print("| clients | shared tokens | engine | output tokens/s | ours to it | TTFT p50 ms | TTFT p99 ms | gap p50 ms |\n"
              "|---:|---:|---|---:|---:|---:|---:|---:|", flush=True)
    cells, seeds = [], iter(range(args.seed, 1 << 62))
    for clients in args.clients:
        for shared in args.shared:
            found = measure(args, Cell(args, clients, shared, args.requests_per_client), peer, seeds)
            ours = found["holdfast"]["output_tokens_per_s"]
            for name, f in found.items():
                cells.append({"clients": clients, "shared_tokens": shared, "engine": name, **f,
                              "ours_to_it": ours / f["output_tokens_per_s"]})
                if not args.json:
                    print(f"| {clients} | {shared} | {name} | {f['output_tokens_per_s']:.1f} | {ours / f['output_tokens_per_s']:.2f} | "
                          f"{f['ttft_ms']['p50']:.0f} | {f['ttft_ms']['p99']:.0f} | {f['gap_ms']['p50']:.1f} |", flush=True)
    if peer:
        peer.stop()
    if args.json:
        print(json.dumps({"threads": args.threads, "peer_version": peer.version if peer else None, "cells": cells}))


if __name__ == "__main__":
    main()
