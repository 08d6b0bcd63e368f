#!/usr/bin/env python3
"""Transforms as a user meets them: calibrate, --kv-center, --kv-rotate, and what of them is refused."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, GOLDEN = sys.argv[1], pathlib.Path(sys.argv[2])


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def run_json(*arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Transforms(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = self.folder / "model.gguf"
        shutil.copy(next(iter(sorted(GOLDEN.glob("llama_tied/*.gguf")))), self.model)
        self.text = self.folder / "text.txt"
        self.text.write_text("The centre of a circle is as far from one of its points as from another. " * 8)

    def check(self, code, arguments, *words):
        done = run(*arguments)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def layers(self, *arguments):
        return run_json("inspect", "-m", self.model, *arguments)["layers"]

    def test_calibrate_writes_beside_the_model_and_is_found_there(self):
        self.assertFalse(self.layers("--kv-cache", "int8")[0]["k_center"])
        made = run_json("calibrate", "-m", self.model, "-f", self.text, "--context", 64, "--values")
        self.assertEqual(made["path"], str(self.model) + ".centers")
        self.assertEqual(made["layers"], len(self.layers()))
        self.assertEqual(made["tokens"] % 64, 0)
        for layer in self.layers("--kv-cache", "int8"):
            self.assertTrue(layer["k_center"] and layer["v_center"])
        for layer in self.layers("--kv-cache", "f16:int8"):
            self.assertFalse(layer["k_center"])
            self.assertTrue(layer["v_center"])
        for layer in self.layers("--kv-cache", "int8", "--kv-center", "off") + self.layers("--kv-cache", "f16"):
            self.assertFalse(layer["k_center"] or layer["v_center"])
        again = run_json("calibrate", "-m", self.model, "-f", self.text, "--context", 64, "--values", "-b", 7, "-t", 1,
                         "-o", self.folder / "again")
        self.assertEqual((self.folder / "again").read_bytes(), pathlib.Path(made["path"]).read_bytes())
        self.assertEqual(again["tokens"], made["tokens"])
        run_json("calibrate", "-m", self.model, "-f", self.text, "-o", self.folder / "keys")
        keys = self.layers("--kv-cache", "int8", "--kv-center", self.folder / "keys")[0]
        self.assertTrue(keys["k_center"] and not keys["v_center"])

    def test_centres_change_what_is_stored_and_nothing_without_an_integer_codec(self):
        centers = self.folder / "centers"
        run_json("calibrate", "-m", self.model, "-f", self.text, "-o", centers)
        with_rows = lambda *more: run_json("eval", "-m", self.model, "-f", self.text, "--context", 64, "--chunks", 2, *more)
        plain = with_rows("--kv-cache", "int8")
        centred = with_rows("--kv-cache", "int8", "--kv-center", centers)
        rotated = with_rows("--kv-cache", "int8", "--kv-rotate", "on")
        self.assertEqual(plain["reference"]["nll"], centred["reference"]["nll"])
        self.assertEqual(plain["reference"]["nll"], rotated["reference"]["nll"])
        divergences = {report["cells"][0]["kld_mean"] for report in (plain, centred, rotated)}
        self.assertEqual(len(divergences), 3)
        for report in (plain, centred, rotated):
            self.assertEqual(report["cells"][0]["bytes_per_token"], plain["cells"][0]["bytes_per_token"])
            self.assertLess(report["cells"][0]["kld_mean"], 0.01)

    def test_it_replaces_a_file_but_writes_into_what_is_none(self):
        calibrate = ["calibrate", "-m", self.model, "-f", self.text, "--context", 64, "-o"]
        plain, pipe, link = self.folder / "plain", self.folder / "pipe", self.folder / "link"
        os.mkfifo(pipe)
        os.symlink("linked", link)
        plain.write_text("old")
        run_json(*calibrate, plain)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # a few kilobytes: they fit the pipe
        run_json(*calibrate, pipe)
        self.assertEqual(os.read(reader, 1 << 16), plain.read_bytes())
        os.close(reader)
        self.assertTrue(pipe.is_fifo(), "a pipe or device is not replaced by a file")
        run_json(*calibrate, link)
        self.assertTrue(link.is_symlink())
        self.assertEqual((self.folder / "linked").read_bytes(), plain.read_bytes())
        self.assertEqual(sorted(os.listdir(self.folder)), ["link", "linked", "model.gguf", "pipe", "plain", "text.txt"])

    def test_where_it_cannot_write_is_said_before_the_work(self):
        # 0 tokens are an error of the calibration itself, which would come first.
        (self.folder / "empty").write_text("")
        self.check(1, ["calibrate", "-m", self.model, "-f", self.folder / "empty", "-o", "/no/such/folder/x"], "/no/such/folder/x")

    def test_what_cannot_be_is_refused(self):
        generate = ["generate", "-m", self.model, "--tokens", "1,2,3", "-n", "1"]
        self.check(2, [*generate, "--kv-rotate", "sideways"], "sideways", "auto, on, off")
        self.check(1, [*generate, "--kv-rotate", "on"], "rotate is on", "f16")
        self.check(1, [*generate, "--kv-center", "missing", "--kv-cache", "int8"], "missing")
        self.check(1, [*generate, "--kv-center", self.text], "integer codec")
        self.check(1, [*generate, "--kv-center", self.text, "--kv-cache", "int8"], "not a file of centres")
        self.check(2, ["calibrate", "-m", self.model], "--file")
        self.check(1, ["calibrate", "-m", self.model, "-f", self.folder / "none"], "none")
        self.check(1, ["calibrate", "-m", self.model, "-f", self.text, "-o", "/no/such/folder/x"], "/no/such/folder/x")
        beside = pathlib.Path(str(self.model) + ".centers")
        run_json("calibrate", "-m", self.model, "-f", self.text)
        data = bytearray(beside.read_bytes())
        data[100] ^= 1
        beside.write_bytes(data)
        self.check(1, [*generate, "--kv-cache", "int8"], "model.gguf.centers", "checksum")
        self.assertEqual(run(*generate, "--kv-cache", "int8", "--kv-center", "off").returncode, 0)
        self.assertEqual(run(*generate).returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
