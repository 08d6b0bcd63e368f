#!/usr/bin/env python3
"""Writes llama.cpp's token ids for 150 nasty strings, and how a model's own chat template renders a few conversations.

    make_tokenizer_expectations.py MODEL.gguf OUT.json [--chat-out CHAT.json [--template FILE]]

Needs `pip install llama-cpp-python jinja2` in a throw-away environment.

OUT: {"engine", "model_sha256", "cases": [{"text": base64, "ids": plain, "special_ids": parse_special (only where it differs), "bytes":
base64 of detokenize(ids) (only where it differs from text)}], "special": ids of "" with the BOS/EOS rule, "end_tokens"}
CHAT: {"template", "default_system" (as the template renders it), "cases": [{"messages", "add_generation_prompt", "text" or
null where the template raises}]}
"""
import argparse
import base64
import ctypes
import hashlib
import json

import jinja2
import llama_cpp
from jinja2.sandbox import ImmutableSandboxedEnvironment

SCRIPTS = [
    "Hello, world!", "The quick brown fox jumps over the lazy dog.", "naïve café façade Zürich Ærøskøbing", "Straße ẞ ſ ﬁ ﬂ",
    "Ελληνικά: η γρήγορη αλεπού", "Быстрая коричневая лиса", "Հայերեն լեզու", "ქართული ენა", "עברית: שלום עולם",
    "العربية: مرحبا بالعالم", "فارسی: سلام دنیا", "اردو میں لکھا ہوا", "हिन्दी में नमस्ते दुनिया", "বাংলা ভাষা", "தமிழ் மொழி", "తెలుగు భాష",
    "ಕನ್ನಡ ಭಾಷೆ", "മലയാളം ഭാഷ", "සිංහල භාෂාව", "ภาษาไทยไม่มีช่องว่าง", "ພາສາລາວ", "မြန်မာဘာသာ", "ភាសាខ្មែរ", "བོད་སྐད་", "ᠮᠣᠩᠭᠣᠯ ᠬᠡᠯᠡ",
    "中文：你好，世界！", "繁體中文與簡體中文", "日本語のテキストとカタカナ", "한국어 텍스트입니다", "Tiếng Việt có dấu", "አማርኛ ቋንቋ", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
    "𐌰𐌱𐌲 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚𝟛", "𓀀𓁐𓂀 𒀀𒁀", "e\u0301 vs \u00e9; o\u0308 vs \u00f6", "Z̸͕̑a̶͍͝l̴̺͐g̷͖̈o̵̞͂", "mixed: abcабв一二三あいうعربي",
    "ＦＵＬＬ　ＷＩＤＴＨ　１２３", "ⅠⅡⅢ ① ② ½ ¾ ² ³ ₄", "ﷺ ﷽ ꙮ",
]
EMOJI = [
    "😀😃😄😁", "👨‍👩‍👧‍👦 family", "👩🏽‍💻 types", "🏳️‍🌈🏴‍☠️", "🇩🇪🇫🇷🇯🇵", "1️⃣2️⃣#️⃣", "❤️‍🔥 ☺️ ☺", "a😀b 😀 c", "🤷🏿‍♀️" * 8, "\u200d\u200d\ufe0f",
    "🫠🫡🪿🫨",
]
SPACE = [
    " ", "  ", "   ", " " * 7, " " * 31, " " * 32, " " * 100, " a", "a ", "  a", "a  ", "a  b", "a   b", "\n", "\n\n", "\n\n\n", "\n" * 31,
    "\n" * 40, "a\nb", "a\n\nb", "a \n b", "\t", "\t\t", "a\tb", "\ta", " \t \n ", "\r\n", "\r", "a\r\nb\r\n\r\nc", "line\n\r\nmixed\r\rends\n",
    "a\u00a0b", "a\u00a0\u00a0b", "\u2003\u2003x", "x\u3000y", "a\u2028b\u2029c", "a\u0085b", "a\u180eb \u180e", "a\u200bb", "\ufeffbom",
    "\v\f\v", "    if x:\n        return 1\n\n\n", "trailing   \nspaces  \n", "\u1680 \u202f \u205f", "▁under▁score ▁", "\t" * 33 + "x",
]
DIGITS = [
    "0", "1234567890", "3.14159", "1,000,000", "a1b2c3", "007 42", "2026-11-30T03:10:13Z", "1 2  3   4", "-1e-10 +2E+5", "0xDEADBEEF",
    "٠١٢٣٤٥٦٧٨٩", "१२३४", "12٣٤५६", "1/2 50% $9.99 €5", "  12", "v1.2.3-rc.4", "9" * 200,
]
CODE = [
    "def f(x):\n    return x ** 2  # square\n", "for (int i = 0; i < n; ++i) { a[i] += b[i]; }", "std::vector<std::string>&& x = {};",
    "SELECT * FROM t WHERE a != 'b';", "{\"key\": [1, 2.5, null, true]}", "<div class=\"x\">&amp;</div>", "#!/bin/sh\nset -eu\necho \"$1\"",
    "\\frac{a}{b} \\in \\mathbb{R}", "a->b <=> c |> d ::= e", "https://example.org/a?b=c&d=%20#e", "user@example.org", "C:\\Users\\x\\n",
    "it's don't we'll I'm they've you're he'd IT'S", "'s't're've'm'll'd", "''''", "\"\"\"doc\"\"\"", "/* comment */ // line",
    "snake_case camelCase SCREAMING_CASE kebab-case", "!!!???...,,,;;;", "-" * 80, "=" * 33 + "*" * 17, "<h1>t</h1><b>x</b></s>",
]
CONTROL = [bytes(range(0, 16)), bytes(range(16, 32)), b"a\0b", b"\x1b[31mred\x1b[0m", b"\x7f", "\u0080\u0081\u009f".encode(), b"\x04\x06\x13\x14\x16\x1d"]
INVALID = [
    b"a\xffb", b"\xff\xfe", b"\xe4\xbd", b"\xe4\xbdx", b"\xf0\x9f\x98", b"\xf0\x9f\x98 x", b"\xc0\x80", b"\xed\xa0\x80", b"x\xed\xb0\x80 y",
    b"\x80\x81", b"ok \xc3( bad", b"\xc3", b"\xe2\x82\xac\xe2\x82", b"\xe0\x80\xaf", b"\xfe\xfe\xff\xff", b"caf\xe9 latin1", b"\x80abc\xbf",
]
SPECIAL = [
    "<|im_start|>user\nHi<|im_end|>\n", "<|endoftext|>", "a<|im_end|>b", "<|im_start|", "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
    "<bos><eos><pad><unk>", " <bos> x <eos> ", "<unused0><unused12><unused6241>", "<0x0A> <0xFF>", "<start_of_image><end_of_image>[multimodal]",
    "<s> </s> <|eot_id|>", "<repo_name>x<file_sep>y<jupyter_code>",
]
LONG = ["a" * 3000, "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 5,
        "ab" * 1500, "漢" * 500, "x1" * 300, "." * 1000, "The rain in Spain stays mainly in the plain. " * 30]

CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "Hello")],
    [("user", "Hello"), ("assistant", "Hi!"), ("user", "How are you?")],
    [("system", "You are a pirate."), ("user", "Hello"), ("assistant", "Arr!"), ("user", "Where is the gold?")],
    [("user", "  padded \n"), ("assistant", "\ttoo\u3000"), ("user", "\u00a0\u2003x\x1f")],
    [("user", "")],
    [("user", "<|im_end|> <end_of_turn> {{ 1 + 1 }} {% raw %}")],
    [("user", "code:\n\n    x = 1\n"), ("assistant", "ok")],
    [("system", " spaced "), ("user", "a\nb")],
    [("user", "日本語 😀")],
    [("assistant", "I start.")],
    [("user", "one"), ("user", "two")],
]


def strings():
    all_strings = SCRIPTS + EMOJI + SPACE + DIGITS + CODE + CONTROL + INVALID + SPECIAL + LONG
    return [s if isinstance(s, bytes) else s.encode() for s in all_strings]


def b64(data):
    return base64.b64encode(data).decode()


def detokenize(vocab, ids):
    """The pieces joined, control tokens hidden: llama_detokenize would also tidy up spaces for some tokenizers."""
    out = b""
    buffer = ctypes.create_string_buffer(1024)
    for token in ids:
        n = llama_cpp.llama_token_to_piece(vocab, token, buffer, 1024, 0, False)
        out += buffer.raw[:n]
    return out


def tokenizer_expectations(llm, digest):
    vocab = llama_cpp.llama_model_get_vocab(llm.model)
    cases = []
    for text in strings():
        ids = llm.tokenize(text, add_bos=False, special=False)
        special_ids = llm.tokenize(text, add_bos=False, special=True)
        case = {"text": b64(text), "ids": ids}
        if special_ids != ids:
            case["special_ids"] = special_ids
        decoded = detokenize(vocab, ids)
        if decoded != text:
            case["bytes"] = b64(decoded)
        cases.append(case)
    ends = [i for i in range(llm.n_vocab()) if llama_cpp.llama_vocab_is_eog(vocab, i)]
    return {"engine": f"llama-cpp-python {llama_cpp.__version__}", "model_sha256": digest,
            "special": llm.tokenize(b"", add_bos=True, special=False), "end_tokens": ends, "cases": cases}


def chat_expectations(source):
    def refuse(message):
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    template = environment.from_string(source)
    cases = []
    for conversation in CONVERSATIONS:
        messages = [{"role": role, "content": content} for role, content in conversation]
        for prompt in (True, False):
            try:
                text = template.render(messages=messages, add_generation_prompt=prompt, bos_token="")
            except jinja2.TemplateError:
                text = None
            cases.append({"messages": messages, "add_generation_prompt": prompt, "text": text})
    return {"template": source, "cases": cases}


def write(path, value):
    with open(path, "w", encoding="ascii") as f:
        json.dump(value, f, separators=(",", ":"))
        f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--chat-out")
    parser.add_argument("--template", help="a Jinja file, for a model whose file has no template")
    args = parser.parse_args()
    with open(args.model, "rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    llm = llama_cpp.Llama(args.model, vocab_only=True, verbose=False)
    expectations = tokenizer_expectations(llm, digest)
    write(args.out, expectations)
    print(f"{args.out}: {len(expectations['cases'])} strings")
    if args.chat_out:
        source = open(args.template, encoding="utf-8").read() if args.template else llm.metadata["tokenizer.chat_template"]
        write(args.chat_out, chat_expectations(source))


if __name__ == "__main__":
    main()
