#!/usr/bin/env python3
"""eval, plan and matrix, driven as a script would."""
import json
import math
import os
import pathlib
import shutil
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from cli_test import FOLDER, GOLDEN, MODEL, run, run_json

GEMMA = str(GOLDEN / "gemma3" / "model.gguf")
TEXT = "the quick brown fox jumps over the lazy dog. " * 12


class Case(unittest.TestCase):
    def refused(self, code, arguments, *words):
        done = run(*arguments)
        self.assertEqual((done.returncode, done.stdout), (code, ""), f"{arguments}: {done.stderr}")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)


class Eval(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.text = os.path.join(self.folder.name, "text.txt")
        pathlib.Path(self.text).write_text(TEXT)
        self.base = ["eval", "-m", MODEL, "-f", self.text, "--context", "32", "--chunks", "2", "--kv-cache"]

    def test_every_scheme_is_compared_with_f16_which_need_not_be_asked_for(self):
        out = run_json(*self.base, "int8,f16:int8,f32")
        self.assertEqual([c["kv_cache"] for c in out["cells"]], ["int8", "f16:int8", "f32"])
        for cell in out["cells"]:
            self.assertEqual((cell["chunks"], cell["targets"]), (2, 2 * 15))
            self.assertGreater(cell["kld_mean"], 0)
            self.assertLessEqual(cell["kld_mean"], cell["kld_max"])
            self.assertLessEqual(cell["kld_p99"], cell["kld_max"])
            self.assertTrue(0 <= cell["same_top"] <= 1)
            self.assertGreater(cell["decode_tokens_per_s"], 0)
            self.assertAlmostEqual(cell["perplexity"], math.exp(cell["nll"]), places=9)
        self.assertEqual(out["reference"]["kv_cache"], "f16")
        int8, mixed, f32 = (c["bytes_per_token"] for c in out["cells"])
        self.assertEqual(2 * out["reference"]["bytes_per_token"], f32)
        self.assertEqual(2 * mixed, int8 + out["reference"]["bytes_per_token"])
        self.assertLess(out["cells"][1]["kld_mean"], out["cells"][0]["kld_mean"])

    def test_f16_itself_is_the_reference(self):
        out = run_json(*self.base, "f16")
        self.assertEqual(out["cells"], [out["reference"]])
        self.assertEqual((out["cells"][0]["kld_max"], out["cells"][0]["same_top"]), (0, 1))

    def test_layers_with_codecs_of_their_own_change_every_scheme_and_not_the_reference(self):
        plain = run_json(*self.base, "f16,int8")
        out = run_json(*self.base, "f16,int8", "--kv-layers", "0=int8")
        self.assertEqual((plain["kv_layers"], out["kv_layers"]), ("", "0=int8"))
        self.assertEqual(out["reference"]["nll"], plain["reference"]["nll"])
        self.assertEqual(out["cells"][1]["nll"], plain["cells"][1]["nll"], "layer 0 is int8 anyway")
        self.assertGreater(out["cells"][0]["kld_mean"], 0)
        self.assertLess(out["cells"][0]["kld_mean"], out["cells"][1]["kld_mean"])
        self.assertLess(out["cells"][0]["bytes_per_token"], plain["cells"][0]["bytes_per_token"])
        self.assertIn("layers 0=int8", run(*self.base, "f16", "--kv-layers", "0=int8").stdout.splitlines()[0])

    def test_sparse_pages_are_compared_with_every_page(self):
        pathlib.Path(self.text).write_text(TEXT * 8)
        base = ["eval", "-m", MODEL, "-f", self.text, "--context", "288", "--chunks", "1", "--kv-cache", "f16,int8"]
        dense = run_json(*base)
        out = run_json(*base, "--kv-sparse-pages", "8")
        self.assertEqual((dense["sparse_pages"], out["sparse_pages"]), (0, 8))
        self.assertEqual(out["reference"]["nll"], dense["reference"]["nll"])
        for sparse, all_pages in zip(out["cells"], dense["cells"]):
            self.assertGreater(sparse["kld_mean"], all_pages["kld_mean"])
            self.assertGreater(sparse["bytes_per_token"], all_pages["bytes_per_token"])
        keys = ("nll", "kld_mean", "kld_p99", "kld_max", "same_top")
        for more in (["-b", "7"], ["-t", "1"], ["--kv-storage", "paged"]):
            again = run_json(*base, "--kv-sparse-pages", "8", *more)
            self.assertEqual([c[k] for c in again["cells"] for k in keys], [c[k] for c in out["cells"] for k in keys], more)
        enough = run_json(*base, "--kv-sparse-pages", "18")
        self.assertEqual([c[k] for c in enough["cells"] for k in keys], [c[k] for c in dense["cells"] for k in keys])
        self.refused(1, [*base, "--kv-sparse-pages", "8", "--kv-window-size", "64"], "every layer is a window")

    def test_rows_left_out_are_compared_with_every_row(self):
        dense, sparse = run_json(*self.base, "f16"), run_json(*self.base, "f16", "--kv-sparse-v", "0.1")
        self.assertEqual((dense["sparse_v"], sparse["sparse_v"]), (0, 0.1))
        self.assertEqual(sparse["reference"]["nll"], dense["reference"]["nll"])
        self.assertGreater(sparse["cells"][0]["kld_mean"], 0)

    def test_float_schemes_are_measured_without_the_transforms_of_the_others(self):
        plain = run_json(*self.base, "f16:bf16,int8")
        centers = os.path.join(self.folder.name, "centers")
        run_json("calibrate", "-m", MODEL, "-f", self.text, "-o", centers)
        for more in (["--kv-rotate", "on"], ["--kv-center", centers]):
            out = run_json(*self.base, "f16:bf16,int8", *more)
            self.assertEqual(out["cells"][0]["nll"], plain["cells"][0]["nll"], more)
            self.assertNotEqual(out["cells"][1]["nll"], plain["cells"][1]["nll"], more)
            run_json("eval", "-m", MODEL, "--needle", "-c", "256", "--depths", "0", "--kv-cache", "f16,int8", *more)
        self.refused(1, [*self.base, "f16,bf16", "--kv-rotate", "on"], "rotate is on", "integer codec")
        self.refused(1, [*self.base, "f16,bf16", "--kv-center", centers], "center_file", "integer codec")

    def test_the_figures_are_the_same_for_any_batch_and_threads(self):
        keys = ("nll", "kld_mean", "kld_p99", "kld_max", "same_top")
        wanted = [run_json(*self.base, "int8")["cells"][0][k] for k in keys]
        for more in (["-b", "1"], ["-b", "7"], ["-t", "1"], ["--kv-storage", "paged"]):
            self.assertEqual([run_json(*self.base, "int8", *more)["cells"][0][k] for k in keys], wanted, more)

    def test_exact_products_are_other_figures(self):
        exact = run_json(*self.base, "int8", "--exact")
        self.assertTrue(exact["exact"])
        self.assertGreater(exact["cells"][0]["kld_mean"], 0)

    def test_a_table_for_people(self):
        done = run(*self.base, "f16,int8")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertIn("2 chunks of 32 tokens, 30 targets", lines[0])
        self.assertEqual([line.split()[0] for line in lines[2:]], ["f16", "int8"])

    def test_the_plot_is_an_svg_file_with_every_scheme_on_it(self):
        path = os.path.join(self.folder.name, "plot.svg")
        out = run_json(*self.base, "int8,bf16,f16:int8", "--svg", path)
        self.assertEqual(len(out["cells"]), 3)
        svg = ElementTree.parse(path).getroot()
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual(svg.tag, space + "svg")
        labels = [t.text for t in svg.iter(space + "text")]
        for label in ("f16", "int8", "bf16", "f16:int8", "bytes a token"):
            self.assertIn(label, labels)
        self.assertEqual(len(list(svg.iter(space + "circle"))), 4)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["plot.svg", "text.txt"])

    def test_a_plot_that_cannot_be_written_is_refused_before_anything_is_measured(self):
        self.refused(1, [*self.base, "int8", "--svg", self.folder.name + "/no/such/plot.svg"], "no/such/plot.svg")

    def test_what_is_refused(self):
        self.refused(2, ["eval", "-m", MODEL, "--kv-cache", "f16"], "-f")
        self.refused(2, [*self.base, "q9"], "q9")
        self.refused(2, [*self.base, ","], "--kv-cache")
        self.refused(2, [*self.base, "f16,auto:kld=1", "--kv-layers", "0=int8"], "--kv-layers", "auto:kld=1")
        self.refused(2, [*self.base, "f16", "--kv-layers", "0=q9"], "--kv-layers", "q9")
        self.refused(1, [*self.base, "f16", "--kv-layers", "90=int8"], "90")
        self.refused(2, [*self.base, "f16", "--depths", "0.5"], "--needle")
        self.refused(2, [*self.base, "f16", "--kv-auto-text", self.text], "--kv-auto-text", "auto:kld=X")
        self.refused(2, [*self.base, "f16", "--svg=", "--json"], "--svg", "the value is empty")
        self.refused(1, [*self.base[:-5], "--context", "32000", "--kv-cache", "f16"], "32000")


class Needle(Case):
    BASE = ["eval", "-m", MODEL, "--needle", "--kv-cache", "f16,int8", "--depths", "0,0.5,1"]

    def test_a_cell_for_every_scheme_and_depth(self):
        out = run_json(*self.BASE, "-c", "256")
        self.assertEqual([(n["depth"], n["kv_cache"]) for n in out["needles"]],
                         [(d, s) for d in (0, 0.5, 1) for s in ("f16", "int8")])
        for needle in out["needles"]:
            self.assertEqual(needle["context"], 256)
            self.assertIn(needle["found"], (True, False))
            self.assertGreater(needle["nll"], 0)

    def test_the_filler_may_be_a_text(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write(TEXT)
            f.flush()
            own = run_json(*self.BASE, "-c", "256", "-f", f.name)
        self.assertNotEqual(own, run_json(*self.BASE, "-c", "256"))

    def test_what_is_refused(self):
        self.refused(2, [*self.BASE[:-1], "0,1.5", "-c", "256"], "1.5")
        self.refused(2, [*self.BASE[:-1], "0,x", "-c", "256"], "'x'")
        self.refused(1, [*self.BASE, "-c", "20"], "20")
        self.refused(2, [*self.BASE, "-c", "256", "--context", "512"], "--context is 512", "-c is 256")
        same = run_json(*self.BASE, "--context", "256")["needles"]
        self.assertEqual(same, run_json(*self.BASE, "-c", "256")["needles"])


class Plan(Case):
    def test_bytes_are_what_a_session_has_and_what_inspect_says(self):
        more = ["-c", "128", "--kv-cache", "f16:int8", "--kv-storage", "paged"]
        plan, inspect = run_json("plan", "-m", GEMMA, *more), run_json("inspect", "-m", GEMMA, *more)
        self.assertEqual(plan["layers"], inspect["layers"])
        self.assertEqual(plan["bytes_per_token"], inspect["bytes_per_token"])
        self.assertEqual(plan["total_bytes"], inspect["planned_bytes"])
        self.assertEqual(plan["total_bytes"], plan["row_bytes"] + plan["metadata_bytes"])
        self.assertEqual(plan["context"], 128)
        done = run("plan", "-m", GEMMA, *more)
        self.assertIn(f"{plan['bytes_per_token']} bytes a token", done.stdout)

    def test_centres_are_what_inspect_says(self):
        with tempfile.TemporaryDirectory() as folder:
            model, text = shutil.copy(MODEL, folder + "/model.gguf"), folder + "/text.txt"
            pathlib.Path(text).write_text(TEXT)
            run_json("calibrate", "-m", model, "-f", text)
            for cache in ("int8", "f16"):
                more = ["-m", model, "--kv-cache", cache]
                self.assertEqual(run_json("plan", *more)["layers"], run_json("inspect", *more)["layers"])
            self.assertTrue(run_json("plan", "-m", model, "--kv-cache", "int8")["layers"][0]["k_center"])
            for more in (["--kv-cache", "int8", "--kv-center", "/nonexistent"], ["--kv-cache", "int8", "--kv-center", text],
                         ["--kv-center", text]):
                self.assertEqual(run("plan", "-m", model, *more).stderr, run("inspect", "-m", model, *more).stderr)
                self.refused(1, ["plan", "-m", model, *more], more[-1])
            self.refused(1, ["plan", "--config", FOLDER + "/config.json", "--kv-cache", "int8", "--kv-center", text], text, "weights")

    def test_a_config_alone_is_enough(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "some.json"
            path.write_bytes((pathlib.Path(FOLDER) / "config.json").read_bytes())
            alone = run_json("plan", "--config", str(path))
        self.assertEqual(alone["layers"], run_json("plan", "-m", FOLDER)["layers"])

    def test_the_largest_context_of_a_budget(self):
        whole = run_json("plan", "-m", MODEL, "--kv-cache-budget", "1T")
        self.assertEqual(run_json("plan", "-m", MODEL, "--kv-cache-budget", "1T", "-t", "1", "-b", "7"), whole)
        self.assertEqual((whole["largest_context"], whole["limited_by"]), (whole["context_length"], "context"))
        budget = whole["total_bytes"] - 1
        less = run_json("plan", "-m", MODEL, "--kv-cache-budget", str(budget))
        self.assertEqual(less["limited_by"], "budget")
        self.assertLess(less["largest_context"], whole["largest_context"])
        self.assertLessEqual(less["largest_context_bytes"], budget)
        fits = run_json("plan", "-m", MODEL, "-c", str(less["largest_context"]))
        self.assertEqual(fits["total_bytes"], less["largest_context_bytes"])
        beyond = run_json("plan", "-m", MODEL, "-c", str(less["largest_context"] + 1))
        self.assertGreater(beyond["total_bytes"], budget)
        self.assertEqual(run_json("plan", "-m", MODEL, "--kv-cache-budget", "0")["largest_context"], 0)

    def test_sizes(self):
        for text, value in (("1048576", 1 << 20), ("1MiB", 1 << 20), ("1.5K", 1536), ("2kb", 2000), ("3g", 3 << 30)):
            self.assertEqual(run_json("plan", "-m", MODEL, "--kv-cache-budget", text)["budget_bytes"], value, text)
        for text in ("MiB", "1X", "1KiBs", "-1", "1e3", "nan", "99999999T"):
            self.refused(2, ["plan", "-m", MODEL, f"--kv-cache-budget={text}"], "--kv-cache-budget", text)

    def test_what_is_refused(self):
        self.refused(2, ["plan"], "--config")
        self.refused(2, ["plan", "-m", MODEL, "--config", "x.json"], "--config")
        self.refused(1, ["plan", "--config", "no/such.json"], "no/such.json")
        self.refused(1, ["plan", "-m", MODEL, "-c", "99999999"], "99999999")


class Matrix(Case):
    def test_every_cell_is_exact_or_says_why_not(self):
        out = run_json("matrix")
        for cell in out["cells"]:
            self.assertEqual("why" in cell, cell["state"] == "refused", cell)
            if cell["operation"] in ("append", "attend", "batch", "rewind", "fork", "protect"):
                self.assertEqual(cell["state"], "exact", cell)
        self.assertIn({"layout": "window", "storage": "paged", "rows": "latent", "codec": "int8", "operation": "rewind",
                       "state": "exact"}, out["cells"])
        lines = run("matrix").stdout.splitlines()
        rows = {tuple(c[k] for k in ("layout", "storage", "rows", "codec")) for c in out["cells"]}
        self.assertEqual(sum(tuple(line.split()[:4]) in rows for line in lines), len(rows))


if __name__ == "__main__":
    unittest.main(argv=["eval_plan_test.py"], verbosity=1)
