#!/usr/bin/env python3
"""--kv-cache auto:kld=X, driven as a script would: chosen once, printed, kept, used again."""
import json
import os
import pathlib
import shutil
import tempfile
import unittest

from cli_test import MODEL, run, run_json

TEXT = "the quick brown fox jumps over the lazy dog. " * 12


class Auto(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = str(self.folder / "model.gguf")
        shutil.copy(MODEL, self.model)
        self.kept = pathlib.Path(self.model + ".kv-auto.json")
        self.text = self.folder / "text.txt"
        self.text.write_text(TEXT)
        self.env = {"HOLDFAST_MODELS_DIR": str(self.folder / "store")}

    def generate(self, spec, *more):
        return run("generate", "-m", self.model, "--tokens", "3,4,5", "-n", "8", "--temp", "0", "--json", "-c", "128",
                   "--kv-cache", spec, *more, env=self.env)

    def refused(self, code, arguments, *words):
        done = run(*arguments, env=self.env)
        self.assertEqual((done.returncode, done.stdout), (code, ""), f"{arguments}: {done.stderr}")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_the_choice_is_printed_kept_and_used_again(self):
        first = self.generate("auto:kld=0.01")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertRegex(first.stderr, r"auto: kld \S+ on held-out text, \d+ bytes a token, 0\S*=.*\(kept in .*\)")
        written = self.kept.read_text()
        (scheme,) = json.loads(written)["schemes"]
        self.assertLessEqual(scheme["kld_held_out"], 0.01)
        self.assertEqual(json.loads(first.stdout)["cache"]["bytes_per_token"], scheme["bytes_per_token"])
        again = self.generate("auto:kld=0.01")
        self.assertIn("from " + str(self.kept), again.stderr)
        self.assertEqual(json.loads(again.stdout)["tokens"], json.loads(first.stdout)["tokens"])
        self.assertEqual(self.kept.read_text(), written)
        same = self.generate("f16", "--kv-layers", scheme["layers"], "--kv-protect-sinks",
                             str(scheme["protect_sinks"]))
        self.assertEqual(json.loads(same.stdout)["tokens"], json.loads(first.stdout)["tokens"])

    def test_another_target_is_another_choice_beside_it_and_inspect_shows_its_layers(self):
        bytes_of = {}
        for kld in ("1e-9", "0.01", "5"):
            out = run_json("inspect", "-m", self.model, "-c", "128", "--kv-cache", "auto:kld=" + kld, env=self.env)
            bytes_of[kld] = out["bytes_per_token"]
        self.assertEqual(len(json.loads(self.kept.read_text())["schemes"]), 3)
        f16 = run_json("inspect", "-m", self.model, "-c", "128")["bytes_per_token"]
        self.assertEqual(bytes_of["1e-9"], f16)
        self.assertLessEqual(bytes_of["0.01"], f16)
        self.assertLess(bytes_of["5"], f16 / 4)

    def test_eval_measures_it_among_other_schemes(self):
        out = run_json("eval", "-m", self.model, "-f", str(self.text), "--context", "32", "--chunks", "2", "-c", "128",
                       "--kv-cache", "int8,auto:kld=0.01,f16", env=self.env)
        int8, auto, f16 = out["cells"]
        self.assertEqual(auto["kv_cache"], "auto:kld=0.01")
        self.assertTrue(auto["layers"].startswith("0"))
        self.assertLessEqual(auto["kld_held_out"], 0.01)
        self.assertLess(auto["bytes_per_token"], f16["bytes_per_token"])
        self.assertNotIn("layers", int8)

    def test_a_text_of_the_users_own_is_another_choice(self):
        self.text.write_text(TEXT * 20)
        first = self.generate("auto:kld=0.01", "--kv-auto-text", str(self.text))
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertNotIn("text=sampled", self.kept.read_text())
        self.assertEqual(self.generate("auto:kld=0.01").returncode, 0)
        self.assertIn("text=sampled", self.kept.read_text())
        self.assertEqual(len(json.loads(self.kept.read_text())["schemes"]), 2)

    def test_where_the_models_folder_takes_no_file_it_is_kept_in_the_store(self):
        os.mkdir(str(self.kept) + ".partial")  # as good as a folder that cannot be written to, for root too
        first = self.generate("auto:kld=0.01")
        self.assertIn("kept in " + self.env["HOLDFAST_MODELS_DIR"], first.stderr)
        self.assertFalse(self.kept.exists())
        self.assertIn("from " + self.env["HOLDFAST_MODELS_DIR"], self.generate("auto:kld=0.01").stderr)

    def test_a_link_to_where_choices_are_kept_stays_a_link(self):
        elsewhere = self.folder / "elsewhere.json"
        self.kept.symlink_to(elsewhere)
        self.assertIn("kept in " + str(self.kept), self.generate("auto:kld=5").stderr)
        self.assertTrue(self.kept.is_symlink())
        self.assertEqual(len(json.loads(elsewhere.read_text())["schemes"]), 1)
        self.assertIn("from " + str(self.kept), self.generate("auto:kld=5").stderr)

    def test_what_is_wrong_is_refused_by_name(self):
        base = ["generate", "-m", self.model, "--tokens", "3", "--kv-cache"]
        for spec in ("auto", "auto:", "auto:kld=", "auto:kld=0", "auto:kld=-1", "auto:kld=x", "auto:kld=nan",
                     "auto:kld=inf", "auto:bytes=3"):
            self.refused(2, base + [spec], spec + ":", "auto:kld=X")
            self.refused(2, ["eval", "-m", self.model, "-f", str(self.text), "--kv-cache", "int8," + spec], spec)
        self.refused(2, base + ["auto:kld=1", "--kv-layers", "0=int8"], "--kv-layers")
        self.refused(2, ["plan", "-m", self.model, "--kv-cache", "auto:kld=1"], "auto:kld=1", "inspect")
        self.refused(1, base + ["auto:kld=1", "--kv-auto-text", "/nonexistent"], "/nonexistent")
        self.refused(1, base + ["auto:kld=1e-9", "-c", "128", "--kv-sparse-v", "0.1"], "sparse_v", "all rows")
        short = self.folder / "short.txt"
        short.write_text("too short")
        self.refused(1, base + ["auto:kld=1", "-c", "128", "--kv-auto-text", str(short)], "tokens", "256")
        self.kept.write_text('{"format": "holdfast kv auto", "version": 1')
        self.refused(1, base + ["auto:kld=1", "-c", "128"], str(self.kept), "not valid JSON")


if __name__ == "__main__":
    unittest.main(argv=["auto_test"])
