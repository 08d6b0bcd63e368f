#!/usr/bin/env python3
"""The command lines that scripts rely on, driven as a script would: exit codes, one line of error, one JSON object."""
import json
import os
import pathlib
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM, GOLDEN = sys.argv[1], pathlib.Path(sys.argv[2])
MODEL = str(next(iter(sorted(GOLDEN.glob("llama_tied/*.gguf")))))
FOLDER = str(next(iter(sorted(p.parent for p in GOLDEN.glob("llama_tied/**/config.json")))))


def run(*arguments, stdin="", env=None):
    return subprocess.run([PROGRAM, *arguments], input=stdin, capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, **(env or {})))


def run_json(*arguments, **more):
    done = run(*arguments, "--json", **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read_npy(path):
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0
    header = eval(data[10:10 + length].decode())  # a literal written by the program under test
    rows, cols = header["shape"]
    assert header["descr"] == "<f4" and not header["fortran_order"] and len(data) == 10 + length + 4 * rows * cols
    return rows, cols, data[10 + length:]


class ExitCodes(unittest.TestCase):
    def check(self, code, arguments, *words):
        done = run(*arguments)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        self.assertEqual(done.stdout, "", arguments)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("holdfast: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_wrong_command_line_exits_2(self):
        self.check(2, [])
        self.check(2, ["no-such-command"], "no-such-command")
        self.check(2, ["generate", "-m", MODEL, "--no-such-option"], "--no-such-option")
        self.check(2, ["generate"], "--model")
        self.check(2, ["generate", "-m", MODEL], "-p")
        self.check(2, ["generate", "-m", MODEL, "--tokens", "1,x"], "'x'")
        self.check(2, ["generate", "-m", MODEL, "--tokens", "1,,-3"], "-3")
        self.check(2, ["generate", "-m", MODEL, "--tokens", ","], "empty")
        self.check(2, ["generate", "-m", MODEL, "--tokens", "1", "--kv-cache", "q9"], "q9", "int8")
        self.check(2, ["generate", "-m", MODEL, "--tokens", "1", "--kv-storage", "tape"], "tape", "paged")
        self.check(2, ["generate", "-m", MODEL, "--tokens", "1", "--temp", "-1"], "temp")
        self.check(2, ["generate", "-m", MODEL, "--tokens", "1", "--top-p", "0"], "top-p")
        self.check(2, ["generate", "-m", MODEL, "--tokens", "1", "-c", "0"], "-c")
        self.check(2, ["bench", "attention", "--heads", "9"], "9")
        self.check(2, ["bench", "attention", "--codecs", ",", "--rows", "16"], "--codecs")
        self.check(2, ["bench", "attention", "--storage", ",", "--rows", "16"], "--storage")
        self.check(2, ["inspect", "-m", MODEL, "--tokens", "1", "--logits-last", "1"], "logits")
        for option in ("--temp", "--top-p", "--min-p", "--repeat-penalty"):
            self.check(2, ["generate", "-m", MODEL, "--tokens", "1", option, "nan"], option, "nan")
        self.check(2, ["generate", "-m", MODEL, "--tokens", "1", "-s", str(1 << 64)], "seed", str(1 << 64), str((1 << 63) - 1))
        for option in ("--tokens", "-f", "--kv-cache", "--kv-block-tokens", "--stop"):
            self.check(2, ["generate", "-m", MODEL, option, ""], option.strip("-")[0], "empty")
        self.check(2, ["inspect", "-m", MODEL, "--tokens", "1", "--logits", ""], "--logits", "empty")

    def test_an_empty_value_does_not_take_the_next_argument_for_its_own(self):
        generate = ["generate", "-m", MODEL, "--tokens", "1"]
        for option in ("--stop", "--kv-cache", "--kv-block-tokens", "--json"):
            self.check(2, [*generate, option + "=", "-n", "2"], option, "the value is empty")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PROGRAM, "inspect", "-m", MODEL, "--tokens", "1", "--logits=", "--json"], cwd=folder,
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(os.listdir(folder), [])
        self.check(2, ["generate", "-m", MODEL, "--no-such-option=", "x"], "--no-such-option=")
        self.check(2, [*generate, "--stop", "a", "b"], "b")
        self.check(2, ["serve", "-m", MODEL, "--api-key", "a", "b"], "b")
        self.assertEqual(run(*generate, "--stop", "a", "--stop", "b", "-n", "1").returncode, 0)
        base = ["tokenize", "-m", MODEL]
        self.assertEqual(run_json(*base, "--prompt=", "--no-special")["tokens"], [])
        for text in ("--stop=", "a="):  # a value of its own, whatever it looks like
            for option in (["-p", text], ["--prompt", text], ["--prompt=" + text]):
                ids = run_json(*base, "--no-special", *option)["tokens"]
                self.assertEqual(run_json(*base, "--decode=" + ",".join(map(str, ids)))["text"], text, option)
        chat = run_json("chat", "-m", MODEL, "-n", "1", "--temp", "0", "--system=", stdin="hello\n")
        self.assertEqual(len(chat["turns"]), 1)

    def test_numbers_are_decimal_and_are_numbers(self):
        self.assertEqual(run_json("inspect", "-m", MODEL, "-c", "010")["max_context"], 10)
        self.assertEqual(run_json("inspect", "-m", MODEL, "-c", "0099")["max_context"], 99)
        self.check(2, ["generate", "-m", MODEL, "--tokens", "1", "-n", "-0099"], "-99")
        self.check(2, ["generate", "-m", MODEL, "--tokens", "1", "--kv-sparse-v", "nan"], "--kv-sparse-v", "nan")
        self.check(2, ["serve", "-m", MODEL, "--drain", "nan"], "--drain", "nan")
        self.check(2, ["bench", "serve", "--url", "http://127.0.0.1:1", "--rate", "nan"], "--rate", "nan")
        self.check(2, ["bench", "serve", "--url", "http://127.0.0.1:1", "-s", str(1 << 64)], "--seed", str((1 << 64) - 1))

    def test_a_value_that_is_wrong_by_itself_exits_2_with_its_limit(self):
        base = ["generate", "-m", MODEL, "--tokens", "1"]
        for storage in ("contiguous", "paged"):
            for value in ("17", "0", "-16", "512"):
                self.check(2, [*base, "--kv-storage", storage, "--kv-block-tokens", value], "--kv-block-tokens", value, "256")
        for value in ("1", "7", "-8", "65537"):
            self.check(2, [*base, "--kv-sparse-pages", value], "--kv-sparse-pages", value, "[8, 65536]")
        self.check(2, [*base, "--kv-window-keep", "4"], "--kv-window-keep 4", "--kv-window-size")
        for option in ("--kv-window-size", "--kv-window-keep", "--kv-recent", "--kv-protect-sinks", "-c"):
            self.check(2, [*base, option, str((1 << 36) + 1)], option.strip("-"), str(1 << 36))
        for bench in (["append", "--rows", "0"], ["attention", "--rows", "0"], ["attention", "--head-dim", "0", "--rows", "16"],
                      ["cascade", "--members", "0"], ["cascade", "--own-rows", "0"],
                      ["decode", "-m", MODEL, "--depths", "0", "--prompts", "8"],
                      ["decode", "-m", MODEL, "--depths", "8", "--prompts", "0"]):
            self.check(2, ["bench", *bench], "bench " + bench[0], "is 0")
        self.check(2, ["bench", "cascade", "--codecs", ","], "--codecs")
        self.check(2, [*base, "--top-p", "0"], "--top-p", "[1e-09, 1]")
        self.check(2, [*base, "--repeat-penalty", "0"], "--repeat-penalty", "[1e-06, 1e+06]")

    def test_options_that_would_do_nothing_are_refused(self):
        for prompt in (["--tokens", "1"], ["-p", "x"], ["-p", ""], ["-f", "no/such/file"]):
            self.check(2, ["inspect", "-m", MODEL, *prompt], "--logits", "--layer-trace")
        base = ["generate", "-m", MODEL, "--tokens", "1"]
        self.check(2, [*base, "--kv-auto-text", "text"], "--kv-auto-text", "auto:kld=X")
        for codec in ([], ["--kv-cache", "f32:bf16"]):
            self.check(2, [*base, "--kv-two-phase", *codec], "--kv-two-phase", "integer codec")
        self.assertEqual(run(*base, "-n", "1", "--kv-two-phase", "--kv-layers", "0=int8").returncode, 0)
        for more in ("--no-special", "--parse-special"):
            self.check(2, ["tokenize", "-m", MODEL, "--decode", "1", more], "--decode", more)
        self.check(2, ["tokenize", "-m", MODEL, "--decode", "abc"], "--decode", "'abc'")
        self.check(2, ["tokenize", "-m", MODEL, "--decode", "-1"], "--decode", "-1")
        self.check(2, ["serve", "-m", MODEL, "--kv-storage", "contiguous"], "--kv-storage contiguous", "paged")
        self.assertRegex(run("serve", "--help").stdout, r"--kv-storage TEXT=paged")

    def test_any_other_error_exits_1_and_names_value_and_limit(self):
        self.check(1, ["generate", "-m", "no/such/model", "-p", "x"], "no/such/model")
        self.check(1, ["generate", "-m", MODEL, "--tokens", "1,99999999"], "99999999")
        self.check(1, ["generate", "-m", MODEL, "--tokens", "1,2,3", "-c", "2"], "3 tokens", "2")
        self.check(1, ["generate", "-m", MODEL, "--tokens", "1", "-c", "99999999"], "99999999")
        self.check(1, ["generate", "-m", MODEL, "--tokens", "@no/such/file"], "no/such/file")
        self.check(1, ["tokenize", "-m", MODEL, "-f", str(GOLDEN)], str(GOLDEN))
        self.check(1, ["bench", "decode", "-m", MODEL, "--depths", str(1 << 62), "--prompts", "8"], str(1 << 62))
        self.check(1, ["bench", "decode", "-m", MODEL, "--depths", "8", "--prompts", str(1 << 62)], str(1 << 62))
        self.check(1, ["models", "fetch", "gpt-17"], "gpt-17", "smollm2")
        self.check(1, ["eval", "-m", MODEL, "-f", "no/such/file"], "no/such/file")
        self.check(1, ["generate", "-m", FOLDER, "-p", "hello"], "tokenizer.json")

    def test_output_that_is_lost_exits_1(self):
        for arguments in (["models"], ["models", "--json"], ["inspect", "-m", MODEL],
                          ["generate", "-m", MODEL, "--tokens", "1", "-n", "2"],
                          ["tokenize", "-m", MODEL, "-p", "abc", "--json"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn("holdfast: write: standard output: ", done.stderr)

    def test_control_characters_of_a_message_do_not_reach_the_terminal(self):
        self.check(1, ["generate", "-m", "no\x1b[31m\nmodel", "-p", "x"], "no?[31m model")

    def test_help_and_version_exit_0(self):
        self.assertEqual(run("--help").returncode, 0)
        self.assertEqual(run("generate", "--help").returncode, 0)
        self.assertEqual(run("--version").returncode, 0)


class Generate(unittest.TestCase):
    BASE = ["generate", "-m", MODEL, "--tokens", "3,5,7,9,11", "-n", "24", "--temp", "0", "--ignore-eos"]

    def test_the_keys_scripts_use(self):
        out = run_json(*self.BASE)
        self.assertEqual(len(out["tokens"]), 24)
        self.assertEqual(out["finish_reason"], "length")
        self.assertEqual(out["usage"], {"prompt_tokens": 5, "reused_tokens": 0, "completion_tokens": 24})
        for key in ("load_ms", "prefill_ms", "decode_ms", "prefill_tokens_per_s", "decode_tokens_per_s"):
            self.assertGreater(out["timings"][key], 0)
        cache = out["cache"]
        self.assertEqual(cache["planned_bytes"], cache["allocated_bytes"])
        self.assertGreaterEqual(cache["allocated_bytes"], cache["live_bytes"])
        self.assertEqual(cache["live_bytes"], 28 * cache["bytes_per_token"])
        self.assertIsInstance(out["text"], str)

    def test_the_same_tokens_however_they_are_computed(self):
        want = run_json(*self.BASE)["tokens"]
        for more in (["-t", "1"], ["-b", "1"], ["-b", "3"], ["--kv-storage", "paged"],
                     ["--kv-storage", "paged", "--kv-block-tokens", "16"], ["--rewind-tokens", "0"], ["-c", "64"]):
            self.assertEqual(run_json(*self.BASE, *more)["tokens"], want, more)

    def test_a_weaker_instruction_set_runs_and_an_unknown_one_is_refused(self):
        want = run_json(*self.BASE)["tokens"]
        self.assertEqual(run_json(*self.BASE, env={"HOLDFAST_FORCE_ISA": "scalar"})["tokens"], want)
        for arguments in (self.BASE, ["inspect", "-m", MODEL], ["bench", "append", "--rows", "16"]):
            done = run(*arguments, env={"HOLDFAST_FORCE_ISA": "no-such-isa"})
            self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
            self.assertIn("no-such-isa", done.stderr)
            self.assertIn("scalar", done.stderr)

    def test_text_goes_to_standard_output_and_figures_do_not(self):
        done = run(*self.BASE)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.rstrip("\n"), run_json(*self.BASE)["text"].rstrip("\n"))
        self.assertIn("bytes a token", done.stderr)

    def test_seeds(self):
        sampled = [a if a != "0" else "1.5" for a in self.BASE]
        first = run_json(*sampled, "-s", "42")
        self.assertEqual(first["tokens"], run_json(*sampled, "-s", "42")["tokens"])
        self.assertEqual(first["seed"], 42)
        self.assertNotEqual(first["tokens"], run_json(*sampled, "-s", "43")["tokens"])

    def test_the_context_ends_generation_and_says_so(self):
        out = run_json(*[a if a != "24" else "-1" for a in self.BASE], "-c", "12")
        self.assertEqual(out["finish_reason"], "context")
        self.assertEqual(out["usage"]["completion_tokens"], 12 - 5 + 1)
        self.assertIn("ended by context", run(*[a if a != "24" else "-1" for a in self.BASE], "-c", "12").stderr)

    def test_a_stop_string_is_cut_off(self):
        text = run_json(*self.BASE)["text"]
        stop = text[4:7]
        out = run_json(*self.BASE, "--stop", stop)
        self.assertEqual(out["text"], text[:text.index(stop)])
        self.assertEqual(out["finish_reason"], "stop")

    def test_no_tokens_wanted(self):
        out = run_json(*[a if a != "24" else "0" for a in self.BASE])
        self.assertEqual((out["tokens"], out["finish_reason"]), ([], "length"))

    def test_an_interrupt_ends_it_with_figures(self):
        with subprocess.Popen([PROGRAM, *[a if a != "24" else "-1" for a in self.BASE]], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            process.stdout.read(1)   # it is generating
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("tokens generated", errors)

    def test_a_folder_stops_at_its_configs_end_token(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
            path = pathlib.Path(folder) / "config.json"
            base = ["generate", "-m", folder, "--tokens", "3,5,7,9,11", "-n", "24", "--temp", "0"]
            path.write_text(json.dumps(dict(json.loads(path.read_text()), eos_token_id=None)))
            free = run_json(*base)["tokens"]
            path.write_text(json.dumps(dict(json.loads(path.read_text()), eos_token_id=[free[5]])))
            out = run_json(*base)
            self.assertEqual((out["tokens"], out["finish_reason"]), (free[:free.index(free[5]) + 1], "stop"))
            self.assertEqual(run_json(*base, "--ignore-eos")["tokens"], free)

    def test_ids_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("3 5\n7,9\t11\n")
            f.flush()
            ids = [a if a != "3,5,7,9,11" else "@" + f.name for a in self.BASE]
            self.assertEqual(run_json(*ids)["tokens"], run_json(*self.BASE)["tokens"])


class Tokenize(unittest.TestCase):
    def test_round_trip(self):
        out = run_json("tokenize", "-m", MODEL, "-p", "abc", "--no-special")
        self.assertEqual(len(out["tokens"]), len(out["pieces"]))
        back = run_json("tokenize", "-m", MODEL, "--decode", ",".join(map(str, out["tokens"])))
        self.assertEqual(back["text"], "abc")

    def test_a_file_is_taken_byte_for_byte(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("ab\n")
            f.flush()
            out = run_json("tokenize", "-m", MODEL, "-f", f.name, "--no-special")
        back = run_json("tokenize", "-m", MODEL, "--decode", ",".join(map(str, out["tokens"])))
        self.assertEqual(back["text"], "ab\n")


class Inspect(unittest.TestCase):
    def test_layers_and_bytes(self):
        out = run_json("inspect", "-m", MODEL, "-c", "64", "--kv-cache", "f16:int8", "--kv-storage", "paged")
        self.assertEqual(out["architecture"], "llama")
        self.assertEqual({(l["k_codec"], l["v_codec"], l["storage"]) for l in out["layers"]}, {("f16", "int8", "paged")})
        self.assertEqual(out["bytes_per_token"], sum(l["bytes_per_token"] for l in out["layers"]))
        self.assertEqual(run("inspect", "-m", MODEL).returncode, 0)

    def test_logits_are_the_same_bytes_in_any_chunks_and_storage(self):
        with tempfile.TemporaryDirectory() as folder:
            wanted = None
            for i, more in enumerate(([], ["-b", "1"], ["-b", "7"], ["-t", "1"], ["--kv-storage", "paged"])):
                path = f"{folder}/{i}.npy"
                run_json("inspect", "-m", MODEL, "--tokens", ",".join(str(3 + t) for t in range(40)), "--logits", path, *more)
                rows, cols, data = read_npy(path)
                self.assertEqual(rows, 40)
                wanted = wanted or data
                self.assertEqual(data, wanted, more)
            path = f"{folder}/last.npy"
            run_json("inspect", "-m", MODEL, "--tokens", ",".join(str(3 + t) for t in range(40)), "--logits", path,
                     "--logits-last", "2")
            rows, cols, data = read_npy(path)
            self.assertEqual((rows, data), (2, wanted[-2 * cols * 4:]))
            self.assertEqual(sorted(os.listdir(folder)), ["0.npy", "1.npy", "2.npy", "3.npy", "4.npy", "last.npy"])

    def test_logits_replace_a_file_but_write_into_what_is_none(self):
        arguments = ["inspect", "-m", MODEL, "--tokens", "3,4,5", "--logits"]
        with tempfile.TemporaryDirectory() as folder:
            plain, pipe, link = f"{folder}/plain.npy", f"{folder}/pipe", f"{folder}/link.npy"
            os.mkfifo(pipe)
            os.symlink("linked.npy", link)
            pathlib.Path(plain).write_text("old")
            run_json(*arguments, plain)
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # a few kilobytes: they fit the pipe
            run_json(*arguments, pipe)
            self.assertEqual(os.read(reader, 1 << 16), pathlib.Path(plain).read_bytes())
            os.close(reader)
            self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode), "a pipe or device is not replaced by a file")
            run_json(*arguments, link)
            self.assertTrue(os.path.islink(link))
            self.assertEqual(read_npy(f"{folder}/linked.npy"), read_npy(plain))
            for not_writable in (folder, f"{folder}/no/such.npy"):
                done = run(*arguments, not_writable)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(not_writable, done.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["link.npy", "linked.npy", "pipe", "plain.npy"])

    def test_layer_trace(self):
        out = run_json("inspect", "-m", MODEL, "--tokens", "3,4,5", "--layer-trace", "--trace-layers", "0,1")
        self.assertEqual([t["layer"] for t in out["layer_trace"]], [0, 1])
        for t in out["layer_trace"]:
            self.assertEqual((t["shape"][0], t["nan"], t["inf"]), (3, 0, 0))
            self.assertLess(t["min"], t["max"])


class EvalAndBench(unittest.TestCase):
    def test_perplexity_cells(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("the quick brown fox jumps over the lazy dog. " * 12)
            f.flush()
            arguments = ["eval", "-m", MODEL, "-f", f.name, "--context", "32", "--chunks", "2", "--kv-cache"]
            out = run_json(*arguments, "f32,f16,int8")
            windowed = run_json(*arguments, "f32", "--kv-storage", "paged", "--kv-window-size", "8", "--kv-window-keep", "2")
        self.assertEqual([c["kv_cache"] for c in out["cells"]], ["f32", "f16", "int8"])
        for cell in out["cells"]:
            self.assertEqual((cell["chunks"], cell["targets"]), (2, 2 * 15))
            self.assertAlmostEqual(cell["perplexity"] / out["cells"][0]["perplexity"], 1.0, delta=0.02)
        self.assertNotEqual(windowed["cells"][0]["perplexity"], out["cells"][0]["perplexity"])

    def test_bench_cells(self):
        out = run_json("bench", "append", "--rows", "16")
        self.assertGreater(out["cells"][0]["concatenate_ns"], 0)
        out = run_json("bench", "decode", "-m", MODEL, "--depths", "8", "--prompts", "8", "-n", "4")
        self.assertEqual([(c["kind"], c["depth"]) for c in out["cells"]], [("prefill", 0), ("decode", 8)])


class Chat(unittest.TestCase):
    def test_turns_go_on_in_one_cache(self):
        out = run_json("chat", "-m", MODEL, "-n", "8", "--temp", "0", stdin="hello\nand again\n")
        self.assertEqual(len(out["turns"]), 2)
        first, second = out["turns"]
        self.assertEqual(first["usage"]["reused_tokens"], 0)
        self.assertGreater(second["usage"]["reused_tokens"], first["usage"]["prompt_tokens"] // 2)
        self.assertGreater(second["usage"]["prompt_tokens"], second["usage"]["reused_tokens"])

    def test_a_turn_that_fails_does_not_take_the_earlier_answers_with_it(self):
        done = run("chat", "-m", MODEL, "-n", "4", "--temp", "0", "-c", "120", "--json", stdin="hello\n" + "long " * 200 + "\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("120", done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["turns"]), 1)

    def test_an_empty_system_text_leaves_out_even_the_templates_own(self):
        plain = pathlib.Path(MODEL).read_bytes()
        begin = plain.index(b"{% for message")
        end = plain.index(b"{% endif %}", begin) + len(b"{% endif %}")
        default = rb"{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}".ljust(end - begin)
        with tempfile.NamedTemporaryFile(suffix=".gguf") as kind:
            kind.write(plain[:begin] + default + plain[end:])
            kind.flush()

            def prompt_tokens(model, *more):
                out = run_json("chat", "-m", model, "-n", "1", "--temp", "0", *more, stdin="hello\n")
                return out["turns"][0]["usage"]["prompt_tokens"]

            none = prompt_tokens(MODEL)
            self.assertEqual(prompt_tokens(kind.name, "--system", ""), none)
            self.assertEqual(prompt_tokens(MODEL, "--system", ""), none)
            self.assertEqual(prompt_tokens(kind.name), prompt_tokens(MODEL, "--system", "Be kind."))
            self.assertGreater(prompt_tokens(kind.name), none)

    def test_a_model_without_a_tokenizer_says_so(self):
        done = run("chat", "-m", FOLDER, stdin="hello\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tokenizer", done.stderr)


class Models(unittest.TestCase):
    def test_list_and_store_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            out = run_json("models", env={"HOLDFAST_MODELS_DIR": folder})
            self.assertEqual([m["name"] for m in out["models"]], ["smollm2", "gemma3"])
            self.assertFalse(any(m["present"] for m in out["models"]))
            done = run("generate", "-m", "smollm2", "-p", "x", env={"HOLDFAST_MODELS_DIR": folder})
            self.assertEqual(done.returncode, 1)
            self.assertIn("models fetch smollm2", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
