#!/usr/bin/env python3
"""`holdfast replay`, driven as a script would."""
import json
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree

from cli_test import MODEL, run, run_json


def line(input_length, hash_ids):
    return json.dumps({"timestamp": 0, "input_length": input_length, "output_length": 1, "hash_ids": hash_ids}) + "\n"


class Replay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trace = self.folder / "trace.jsonl"
        self.trace.write_text(line(1024, [1, 2]) + line(1024, [1, 3]) + line(1024, [4, 5]) + line(1024, [1, 2]))

    def refused(self, code, arguments, *words):
        done = run("replay", *arguments)
        self.assertEqual((done.returncode, done.stdout), (code, ""), f"{arguments}: {done.stderr}")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_a_cell_for_each_budget(self):
        out = run_json("replay", str(self.trace), "--budgets", "0,1024", "--block-tokens", "16")
        unlimited, limited = out["cells"]
        self.assertEqual((unlimited["budget"], unlimited["hit_tokens"], unlimited["total_tokens"]), (0, 1535, 4096))
        self.assertEqual((unlimited["evictions"], unlimited["peak_tokens"], unlimited["waste"]), (0, 2560, 0))
        self.assertEqual((limited["budget"], limited["hit_tokens"], limited["evictions"]), (1024, 512, 5))
        self.assertAlmostEqual(limited["hit_rate"], 512 / 4096)
        self.assertEqual(out["block_tokens"], 16)
        self.assertNotIn("bytes_per_token", out)

    def test_budgets_in_bytes_by_a_models_cache(self):
        (given,) = run_json("replay", str(self.trace), "--budgets", "100KiB", "--bytes-per-token", "100")["cells"]
        self.assertEqual(given["budget"], 1024)
        self.assertEqual(given["peak_bytes"], 102400)
        f16 = run_json("replay", str(self.trace), "--budgets", "1MiB", "-m", MODEL)
        planned = run_json("plan", "-m", MODEL)["bytes_per_token"]
        self.assertEqual(f16["bytes_per_token"], planned)
        self.assertEqual(f16["cells"][0]["budget"], (1 << 20) // planned)
        int8 = run_json("replay", str(self.trace), "--budgets", "1MiB", "-m", MODEL, "--kv-cache", "int8")
        self.assertGreater(int8["cells"][0]["budget"], f16["cells"][0]["budget"])

    def test_a_table_and_a_plot(self):
        svg = self.folder / "plot.svg"
        done = run("replay", str(self.trace), "--budgets", "0,600,1024,4096", "--svg", str(svg))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no limit", done.stdout)
        self.assertEqual(len(done.stdout.strip().splitlines()), 6)
        root = xml.etree.ElementTree.parse(svg).getroot()
        circles = [e for e in root if e.tag.endswith("circle")]
        self.assertEqual(len(circles), 3)
        self.assertEqual(len([e for e in root if e.tag.endswith("path")]), 1)
        self.assertTrue(circles[0][0].text.startswith("600 tokens: "), circles[0][0].text)

    def test_no_more_of_a_block_is_a_hit_than_was_stored(self):
        self.trace.write_text(line(300, [1]) + line(512, [1]) + line(1000, [1, 2]))
        (cell,) = run_json("replay", str(self.trace), "--budgets", "0")["cells"]
        self.assertEqual((cell["hit_tokens"], cell["peak_tokens"]), (300 + 512, 1000))

    def test_options_of_a_models_cache_need_the_model(self):
        base = [str(self.trace), "--budgets", "0"]
        for option in (["--kv-cache", "q9"], ["--kv-cache", "int8"], ["-c", "128"], ["--kv-layers", "0=int8"]):
            self.refused(2, [*base, *option], option[0].strip("-"), "--model")
        self.refused(2, [*base, "-m", MODEL, "--kv-cache", "q9"], "q9")
        self.refused(2, [*base, "-b", "16"], "-b")
        self.refused(2, [*base, "--block-tokens", "16", "--kv-block-tokens", "32"], "block-tokens", "excludes")
        self.assertEqual(run_json("replay", *base, "--kv-block-tokens", "16")["block_tokens"], 16)

    def test_what_is_wrong_is_named(self):
        trace = str(self.trace)
        self.refused(2, [trace], "--budgets")
        self.refused(2, [trace, "--budgets", ","], "--budgets")
        self.refused(2, [trace, "--budgets", "12x"], "--budgets", "12x")
        self.refused(2, [trace, "--budgets", "-5"], "--budgets")
        self.refused(2, [trace, "--budgets", "1MiB"], "--bytes-per-token")
        self.refused(2, [trace, "--budgets", "10B", "--bytes-per-token", "100"], "10B", "100")
        self.refused(2, [trace, "--budgets", "0", "--block-tokens", "33"], "--block-tokens", "33")
        self.refused(1, [str(self.folder / "absent"), "--budgets", "0"], "absent")
        self.trace.write_text(line(1024, [1, 2]) + line(1024, [1]))
        self.refused(1, [trace, "--budgets", "0"], "line 2", "hash_ids")


if __name__ == "__main__":
    unittest.main(argv=["replay_test"])
