#!/usr/bin/env python3
"""Writes tests/golden/: tiny random models, and what transformers computes with them.

Not part of the build: its output is committed. Run it in a throw-away environment with
`pip install torch transformers gguf`:

    python tools/make_golden.py tests/golden [NAME...]

Each golden is a folder NAME/ with
    hf/             a Hugging Face folder (config.json, safetensors)
    model.gguf      the same weights as GGUF, where that format carries the model
    expected.json   {"prompt": [ids], "greedy": [64 ids], "vocab": n, "smallest_gap": x}
    logits.npy      f32 [prompt tokens, vocab]: one-shot logits of the prompt in f32

The models differ in what they exercise: see MODELS at the end. Weights are scaled so that logits are of order 1 to 10 and
a seed is taken whose greedy choices are not hair-thin, so that a wrong formula is far outside the tolerance and a right one
far inside.
"""
import json
import pathlib
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers

PROMPT_TOKENS = 40
GREEDY_TOKENS = 64
VOCAB = 288
SMALLEST_GAP = 0.02
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def fill(model, seed, plus_one):
    """Random weights: products keep the size of their input, norms lie around 1, embeddings give spread-out logits."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            r = torch.randn(p.shape, generator=g)
            if "norm" in name:
                p.copy_(0.2 * r + (1.0 if not plus_one or "q_norm" not in name and "k_norm" not in name else 0.2))
            elif "embed_tokens" in name or "lm_head" in name:
                p.copy_((0.25 if plus_one else 0.5) * r)
            elif name.endswith("bias"):
                p.copy_(0.3 * r)
            else:
                p.copy_(1.2 * r / p.shape[1] ** 0.5)


def expected(model, prompt):
    """One-shot logits, and greedy tokens with the smallest gap between the first and the second choice; (None, None, 0)
    where that gap is hair-thin."""
    ids = torch.tensor([prompt])
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits[0].float()
        greedy, gaps = [], []
        for _ in range(GREEDY_TOKENS):
            last = model(ids, use_cache=False).logits[0, -1].float()
            top = last.topk(2)
            greedy.append(int(top.indices[0]))
            gaps.append(float(top.values[0] - top.values[1]))
            if gaps[-1] < SMALLEST_GAP:
                return None, None, 0.0
            ids = torch.cat([ids, top.indices[:1][None]], dim=1)
    return logits.numpy(), greedy, min(gaps)


def choose(config, dtype, plus_one):
    """The first seed whose smallest greedy gap is comfortable, with varied greedy tokens."""
    for seed in range(1, 400):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
        fill(model, seed, plus_one)
        with torch.no_grad():  # the weights that the file will hold; buffers (RoPE's frequencies) stay in f32
            for p in model.parameters():
                p.copy_(p.to(dtype).float())
        prompt = np.random.default_rng(seed).integers(4, 256, PROMPT_TOKENS).tolist()
        logits, greedy, gap = expected(model, prompt)
        if greedy and len(set(greedy)) >= 12:
            return model, prompt, logits, greedy, gap
    raise SystemExit("no seed with comfortable greedy gaps")


def permute(w, heads):
    """Hugging Face's row order of q and k (halves) to GGUF's llama (interleaved)."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def byte_level_vocabulary():
    """A byte-level BPE vocabulary of VOCAB pieces: control tokens, 256 bytes, merges of frequent pairs."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    text, extra = {}, 0
    for b in range(256):
        text[b] = chr(b) if b in printable else chr(256 + extra)
        extra += b not in printable
    pieces = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>"] + [text[b] for b in range(256)]
    pairs = "Ġ t|h e|Ġt he|i n|Ġ a|e r|o n|r e|Ġ s|a t|e n|o r|Ġ w|e s|Ġ o|i s|Ġ c|i t|a n|a l|o u|Ġ p|Ġ f|n d|n g|i ng|e d|Ġ d"
    merges = pairs.split("|")
    pieces += [m.replace(" ", "") for m in merges]
    assert len(pieces) == VOCAB, len(pieces)
    types = [gguf.TokenType.CONTROL] * 4 + [gguf.TokenType.NORMAL] * (VOCAB - 4)
    return pieces, types, merges


def sentencepiece_vocabulary():
    """A SentencePiece vocabulary of VOCAB pieces: control tokens, byte fallback, words by score."""
    words = "▁ t h e a i n o s r d l u c m f p g w y b v k . , ▁t he".split(" ")
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)] + words
    pieces += ["<end_of_turn>"]
    assert len(pieces) == VOCAB, len(pieces)
    types = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.UNKNOWN] + [gguf.TokenType.BYTE] * 256
    types += [gguf.TokenType.NORMAL] * len(words) + [gguf.TokenType.CONTROL]
    scores = [-1000.0] * 260 + [-float(i) for i in range(len(words))] + [-1000.0]
    return pieces, types, scores


def gguf_tokenizer(w, arch):
    if arch == "gemma3":
        pieces, types, scores = sentencepiece_vocabulary()
        w.add_tokenizer_model("llama")
        w.add_tokenizer_pre("default")
        w.add_token_scores(scores)
        w.add_bos_token_id(2)
        w.add_eos_token_id(1)
        w.add_unk_token_id(3)
    else:
        pieces, types, merges = byte_level_vocabulary()
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("smollm")
        w.add_token_merges(merges)
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_unk_token_id(3)
        w.add_chat_template(CHATML)
    w.add_token_list(pieces)
    w.add_token_types(types)
    w.add_add_bos_token(arch == "gemma3")
    w.add_add_space_prefix(False)


def llama3_factors(config, rope):
    """rope_freqs.weight: what divides each pair's frequency (Llama 3.1's rule, as GGUF converters store it)."""
    out = []
    for i in range(0, config.head_dim, 2):
        wavelength = 2 * np.pi * rope["rope_theta"] ** (i / config.head_dim)
        turns = rope["original_max_position_embeddings"] / wavelength
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = min(1.0, max(0.0, (turns - low) / (high - low)))
        out.append(1.0 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(out, dtype=np.float32)


def gguf_metadata(w, arch, config):
    w.add_name("tiny " + arch)
    w.add_vocab_size(config.vocab_size)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_block_count(config.num_hidden_layers)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_key_length(config.head_dim)
    w.add_value_length(config.head_dim)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    if arch == "gemma3":
        rope = rope["full_attention"]
        w.add_sliding_window(config.sliding_window)
    else:
        w.add_rope_dimension_count(config.head_dim)
    w.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(config, rope))
    gguf_tokenizer(w, arch)


def write_gguf(path, arch, model, dtype):
    config = model.config
    w = gguf.GGUFWriter(path, arch)
    gguf_metadata(w, arch, config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config.num_hidden_layers)
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        v = p.float().numpy()
        if arch == "llama" and ".q_proj." in name:
            v = permute(v, config.num_attention_heads)
        if arch == "llama" and ".k_proj." in name:
            v = permute(v, config.num_key_value_heads)
        if arch == "gemma3" and name.endswith("norm.weight"):
            v = v + np.float32(1)
        half = dtype == torch.float16 and v.ndim == 2
        w.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), v.astype(np.float16) if half else v)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make(root, name, arch, config, dtype=torch.float32, shard=None, with_gguf=True, legacy=None):
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model, prompt, logits, greedy, gap = choose(config, dtype, plus_one=arch == "gemma3")
    if with_gguf:
        write_gguf(str(folder / "model.gguf"), arch, model, dtype)
    model.to(dtype)
    model.config.dtype = dtype
    model.save_pretrained(folder / "hf", **({"max_shard_size": shard} if shard else {}))
    (folder / "hf" / "generation_config.json").unlink(missing_ok=True)
    if legacy:  # keys as older versions of transformers wrote them
        path = folder / "hf" / "config.json"
        settings = json.loads(path.read_text())
        for key in legacy.pop("drop"):
            settings.pop(key, None)
        settings.update(legacy)
        path.write_text(json.dumps(settings, indent=2) + "\n")
    np.save(folder / "logits.npy", logits.astype(np.float32))
    (folder / "expected.json").write_text(
        json.dumps({"prompt": prompt, "greedy": greedy, "vocab": config.vocab_size, "smallest_gap": round(gap, 4)}) + "\n"
    )
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{name}: {size} bytes, gap {gap:.3f}, |logit| up to {np.abs(logits).max():.1f}", file=sys.stderr)


def llama_config(**changes):
    settings = dict(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=512, rms_norm_eps=1e-5, bos_token_id=1,
        eos_token_id=2, tie_word_embeddings=False,
    )
    return transformers.LlamaConfig(**(settings | changes))


def gemma_config(**changes):
    settings = dict(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=7, num_attention_heads=4,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=512, sliding_window=8, query_pre_attn_scalar=16,
        bos_token_id=2, eos_token_id=1, pad_token_id=0,
    )
    return transformers.Gemma3TextConfig(**(settings | changes))


LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
MODELS = {
    # Plain RoPE, tied embeddings, float32 throughout.
    "llama_tied": lambda: dict(
        arch="llama", config=llama_config(hidden_size=64, intermediate_size=96, tie_word_embeddings=True)),
    # Biases everywhere, an output matrix of its own, llama3 RoPE; the folder is sharded.
    "llama_biased": lambda: dict(
        arch="llama", shard="60KB",
        config=llama_config(num_hidden_layers=3, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3_ROPE)),
    # Linear RoPE scaling, float16 weights, the older config keys.
    "llama_linear": lambda: dict(
        arch="llama", dtype=torch.float16,
        config=llama_config(rope_parameters={"rope_type": "linear", "rope_theta": 500000.0, "factor": 4.0}),
        legacy={"drop": ["rope_parameters", "dtype"], "rope_theta": 500000.0, "torch_dtype": "float16",
                "rope_scaling": {"type": "linear", "factor": 4.0}}),
    # A sliding window in every layer, bfloat16 weights.
    "mistral_window": lambda: dict(
        arch="llama", dtype=torch.bfloat16, with_gguf=False,
        config=transformers.MistralConfig(**{k: v for k, v in llama_config().to_dict().items() if k in (
            "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings")},
            bos_token_id=1, eos_token_id=2, sliding_window=8)),
    # Windows of 8 with the sixth layer full, two RoPE bases.
    "gemma3": lambda: dict(arch="gemma3", config=gemma_config()),
    # Linear RoPE scaling in the full layers, another attention scale, bfloat16 weights, the older config keys.
    "gemma3_scaled": lambda: dict(
        arch="gemma3", dtype=torch.bfloat16, with_gguf=False,
        config=gemma_config(query_pre_attn_scalar=24, rope_parameters={
            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
        legacy={"drop": ["rope_parameters", "layer_types", "_sliding_window_pattern", "dtype"], "rope_theta": 1e6,
                "rope_local_base_freq": 10000.0, "sliding_window_pattern": 6, "torch_dtype": "bfloat16",
                "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
}


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    root = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or MODELS:
        make(root, name, **MODELS[name]())


if __name__ == "__main__":
    main()
