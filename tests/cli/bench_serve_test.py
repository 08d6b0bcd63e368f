#!/usr/bin/env python3
"""`holdfast bench serve` against a small server of Python's standard library."""
import http.server
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import unittest

PROGRAM = sys.argv[1]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer(200, {"data": [{"id": "toy"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/completions":
            return self.answer(404, {"error": {"message": "no such path"}})
        with self.server.lock:
            self.server.bodies.append(body)
            failing = self.server.failing(len(self.server.bodies))
        if self.server.together is not None:
            self.server.together.wait(20)
        if failing:
            return self.answer(429, {"error": {"message": "the queue is full"}})
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = [{"choices": [{"text": " w"}]}] * body["max_tokens"]
        events.append({"choices": [], "usage": {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": body["max_tokens"],
                                                "prompt_tokens_details": {"cached_tokens": 2}}})
        for data in [json.dumps(event) for event in events] + ["[DONE]"]:
            line = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 256
    together = None  # a barrier that requests wait at


class BenchServe(unittest.TestCase):
    def setUp(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.lock, self.server.bodies, self.server.failing = threading.Lock(), [], lambda count: False
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

    def run_it(self, *arguments, url=None, before=None):
        return subprocess.run([PROGRAM, "bench", "serve", "--url", url or self.url, *arguments], capture_output=True, text=True,
                              timeout=60, preexec_fn=before)

    def test_one_json_object_has_the_figures(self):
        done = self.run_it("--clients", "2", "--requests", "5", "--prompt-tokens", "30", "--shared-tokens", "20", "-n", "4", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        figures = json.loads(done.stdout)
        self.assertEqual([figures[k] for k in ("requests", "errors", "output_tokens", "prompt_tokens", "cached_tokens")],
                         [5, 0, 20, 150, 10])
        self.assertAlmostEqual(figures["output_tokens_per_s"], 20 / figures["seconds"], delta=0.01 * figures["output_tokens_per_s"])
        self.assertEqual(set(figures["ttft_ms"]), {"p50", "p99", "max"})
        self.assertEqual(set(figures["gap_ms"]), {"p50", "p99", "max"})
        self.assertLessEqual(figures["ttft_ms"]["p50"], figures["ttft_ms"]["p99"])
        beginnings = {" ".join(body["prompt"].split()[:20]) for body in self.server.bodies}
        self.assertEqual(len(beginnings), 1)
        self.assertEqual(len({body["prompt"] for body in self.server.bodies}), 5)

    def test_errors_are_counted_and_told(self):
        self.server.failing = lambda count: count % 2 == 0
        done = self.run_it("--clients", "1", "--requests", "6", "-n", "2", "--json")
        self.assertEqual(done.returncode, 0)
        figures = json.loads(done.stdout)
        self.assertEqual((figures["requests"], figures["errors"], figures["output_tokens"]), (6, 3, 6))
        self.assertEqual(figures["error_messages"], ["status 429: the queue is full"])
        self.assertIn("the queue is full", done.stderr)

    def test_it_fails_where_every_request_failed(self):
        self.server.failing = lambda count: True
        done = self.run_it("--requests", "3", "--json")
        self.assertEqual(done.returncode, 1)
        figures = json.loads(done.stdout)
        self.assertEqual(figures["errors"], 3)
        self.assertEqual(figures["ttft_ms"], {"p50": None, "p99": None, "max": None})
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        self.assertTrue(done.stderr.startswith("holdfast: bench serve: all of 3 requests failed: status 429"), done.stderr)

    def test_without_json_it_is_a_table(self):
        done = self.run_it("--rate", "200", "--requests", "4", "-n", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("4 requests", "0 errors", "12 tokens", "first text", "gap"):
            self.assertIn(words, done.stdout)

    def test_more_clients_at_a_time_than_the_soft_limit_of_descriptors(self):
        self.server.together = threading.Barrier(100)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        done = self.run_it("--clients", "100", "--requests", "100", "-n", "1", "--json",
                           before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["errors"], 0, done.stderr)
        self.server.together = None
        done = self.run_it("--clients", "100", "--requests", "100", "-n", "1", "--json",
                           before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        self.assertGreater(json.loads(done.stdout)["errors"], 0)
        self.assertIn("Too many open files", done.stderr)

    def test_a_trace_decides_how_long_and_how_many(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.jsonl"
            trace.write_text("".join(json.dumps({"timestamp": 10 * i, "input_length": 520 + i, "output_length": 1 + i,
                                                 "hash_ids": [7, 100 + i]}) + "\n" for i in range(30)))
            done = self.run_it("--trace", str(trace), "--trace-speed", "10", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["requests"], 30)
            self.assertEqual(sorted(body["max_tokens"] for body in self.server.bodies), list(range(1, 31)))
            self.assertEqual(len({" ".join(body["prompt"].split()[:512]) for body in self.server.bodies}), 1)
            self.server.bodies.clear()
            done = self.run_it("--trace", str(trace), "--requests", "3", "-n", "2", "--max-prompt-tokens", "9", "--json")
            self.assertEqual(json.loads(done.stdout)["requests"], 3)
            lengths = sorted((len(body["prompt"].split()), body["max_tokens"]) for body in self.server.bodies)
            self.assertEqual(lengths, [(9, 1), (9, 2), (9, 2)])

    def check(self, code, words, *arguments, url=None):
        done = self.run_it(*arguments, url=url)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn(words, done.stderr)

    def test_a_wrong_command_line_exits_2_and_a_server_that_is_not_there_1(self):
        self.check(2, "--clients", "--clients", "0")
        self.check(2, "--rate", "--rate", "-1")
        self.check(2, "--clients", "--rate", "5", "--clients", "3")
        self.check(2, "--trace", "--trace-speed", "2")
        self.check(2, "--trace", "--trace", "x", "--rate", "2")
        self.check(2, "--prompt-tokens", "--trace", "x", "--prompt-tokens", "9")
        self.check(2, "--shared-tokens", "--trace", "x", "--shared-tokens", "9")
        self.check(2, "--shared-tokens", "--prompt-tokens", "10", "--shared-tokens", "11")
        self.check(2, "url 'ftp://x'", url="ftp://x")
        self.check(1, "/no/such/file", "--trace", "/no/such/file")
        self.server.shutdown()
        self.server.server_close()
        self.check(1, "connect: ")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
