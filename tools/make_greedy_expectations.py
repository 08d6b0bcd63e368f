#!/usr/bin/env python3
"""Writes what llama.cpp says to twelve prompts: the prompt's ids, its own greedy continuation, and how sure it was.

    make_greedy_expectations.py MODEL.gguf tests/expectations/greedy_prompts.json OUT.json

Needs `pip install llama-cpp-python numpy` in a throw-away environment (GGML_NATIVE off when gcc 12 builds it). The
end token does not stop the continuation, because the test feeds these tokens and never samples.

OUT: {"engine", "model_sha256", "context", "threads", "prompts": [{"name", "text", "ids", "tokens": [64], "gaps": [64]}]}
tokens[i] is the top token after ids + tokens[:i]; gaps[i] its logit minus the second's.
"""
import argparse
import hashlib
import json

import llama_cpp
import numpy as np

STEPS = 64


def chat_text(architecture, user):
    """One user turn as the model family writes it; BOS is the tokenizer's business."""
    if architecture.startswith("gemma"):
        return f"<start_of_turn>user\n{user}<end_of_turn>\n<start_of_turn>model\n"
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    return (f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n"
            "<|im_start|>assistant\n")


def top_two(llm):
    vocab = llm.n_vocab()
    row = llama_cpp.llama_get_logits_ith(llm.ctx, -1)
    logits = np.ctypeslib.as_array(row, shape=(vocab,))
    first = int(np.argmax(logits))
    second = float(np.max(np.delete(logits, first)))
    return first, float(logits[first]) - second


def continuation(llm, ids):
    llm.reset()
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(llm.ctx), True)
    llm.eval(ids)
    tokens, gaps = [], []
    for _ in range(STEPS):
        token, gap = top_two(llm)
        tokens.append(token)
        gaps.append(round(gap, 4))
        llm.eval([token])
    return tokens, gaps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("prompts")
    parser.add_argument("out")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    with open(args.model, "rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    with open(args.prompts, encoding="utf-8") as f:
        prompts = json.load(f)
    llm = llama_cpp.Llama(args.model, n_ctx=args.context, n_batch=512, n_threads=args.threads,
                          n_threads_batch=args.threads, verbose=False)
    architecture = llm.metadata["general.architecture"]
    rows = []
    for prompt in prompts:
        text = chat_text(architecture, prompt["text"]) if prompt.get("chat") else prompt["text"]
        ids = llm.tokenize(text.encode(), add_bos=True, special=bool(prompt.get("chat")))
        tokens, gaps = continuation(llm, ids)
        rows.append({"name": prompt["name"], "text": text, "ids": ids, "tokens": tokens, "gaps": gaps})
        print(f"{prompt['name']}: {len(ids)} ids, {sum(g > 1.0 for g in gaps)} of {STEPS} gaps above 1.0: "
              f"{llm.detokenize(tokens).decode(errors='replace')[:70]!r}")
    result = {"engine": f"llama-cpp-python {llama_cpp.__version__}", "model_sha256": digest, "context": args.context,
              "threads": args.threads, "prompts": rows}
    with open(args.out, "w", encoding="ascii") as f:
        json.dump(result, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
