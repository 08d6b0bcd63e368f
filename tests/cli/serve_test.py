#!/usr/bin/env python3
"""serve, driven as a script would: started, asked over HTTP, stopped by a signal."""
import concurrent.futures
import http.client
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

from cli_test import MODEL, PROGRAM, run, run_json


class Serving:
    """A running server; its standard error is read up to the line that says where it listens."""

    def __init__(self, *arguments, model=MODEL, context=128):
        self.process = subprocess.Popen([PROGRAM, "serve", "-m", model, "--port", "0", "-c", str(context), "-t", "1", *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.match(r"listening on (http://\S+)$", line)
            if found:
                self.url = found.group(1)
                return
        raise AssertionError(f"it ended with {self.process.wait()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err

    def get(self, path, key=None):
        return self.ask(path, None, key)

    def ask(self, path, body, key=None):
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode())
        if key:
            request.add_header("Authorization", "Bearer " + key)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()

    def complete(self, **fields):
        return json.loads(self.ask("/v1/completions", {"prompt": [3, 4, 5, 6], "max_tokens": 8, "temperature": 0, **fields}))


class Serve(unittest.TestCase):
    def status(self, call, *arguments):
        try:
            call(*arguments)
            return 200
        except urllib.error.HTTPError as e:
            self.assertIn("message", json.loads(e.read())["error"])
            return e.code

    def test_it_answers_as_generate_does_and_a_signal_ends_it(self):
        alone = run_json("generate", "-m", MODEL, "--tokens", "3,4,5,6", "-n", "8", "--temp", "0", "-c", "128", "--ignore-eos",
                         "--kv-storage", "paged")
        with Serving("--json") as server:
            self.assertEqual(json.loads(server.get("/health")), {"status": "ok"})
            answer = server.complete(ignore_eos=True)
            self.assertEqual(answer["choices"][0]["text"], alone["text"])
            self.assertEqual(answer["usage"]["prompt_tokens"], 4)
            self.assertEqual(answer["usage"]["completion_tokens"], 8)
            self.assertEqual(answer["choices"][0]["finish_reason"], "length")
            self.assertIn("cause", answer["holdfast"]["miss"])
            code, out, _ = server.stop()
            self.assertEqual(code, 0)
            figures = json.loads(out)
            self.assertEqual((figures["requests"], figures["generated_tokens"]), (1, 8))

    def test_requests_that_run_together_get_what_each_gets_alone(self):
        prompts = [[3 + i, 4, 5, 6 + i, 7] for i in range(12)]
        with Serving("--parallel", "4") as server:
            alone = [server.complete(prompt=p, seed=7, temperature=1)["choices"] for p in prompts]
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                together = list(pool.map(lambda p: server.complete(prompt=p, seed=7, temperature=1)["choices"], prompts))
            self.assertEqual(together, alone)
            cache = json.loads(server.get("/v1/cache"))
            self.assertEqual(cache["sequences"], [])
            self.assertEqual(cache["blocks"]["live"], 0)
            self.assertLessEqual(cache["allocated_bytes"], cache["budget_bytes"])

    def test_a_prompt_that_comes_twice_evaluates_one_token(self):
        with Serving() as server:
            prompt = [3 + i % 20 for i in range(100)]
            cold = server.complete(prompt=prompt)
            warm = server.complete(prompt=prompt)
            self.assertEqual(cold["holdfast"]["reused_tokens"], 0)
            self.assertEqual(warm["usage"]["prompt_tokens_details"]["cached_tokens"], 99)
            self.assertEqual(warm["choices"], cold["choices"])

    def test_streamed_text_is_the_same(self):
        with Serving() as server:
            plain = server.complete()["choices"][0]["text"]
            events = server.ask("/v1/completions", {"prompt": [3, 4, 5, 6], "max_tokens": 8, "temperature": 0,
                                                    "stream": True}).strip().split("\n\n")
            self.assertEqual(events[-1], "data: [DONE]")
            chunks = [json.loads(e[len("data: "):]) for e in events[:-1]]
            self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), plain)
            self.assertIn("holdfast", chunks[-1])

    def test_an_echo_with_logprobs_has_the_prompts_and_they_are_those_of_an_answer(self):
        with Serving() as server:
            prompt = [3 + i % 20 for i in range(60)]
            answer = server.complete(prompt=prompt, max_tokens=9, logprobs=2, ignore_eos=True)["choices"][0]["logprobs"]
            drawn = json.loads(server.ask("/tokenize", {"content": "a"}))["tokens"]
            self.assertEqual(len(drawn), 1)
            for more in (drawn, [7, 200, 11]):
                whole = server.complete(prompt=prompt + more, max_tokens=0, logprobs=2, echo=True)
                self.assertEqual(whole["usage"]["completion_tokens"], 0)
                self.assertEqual(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
                self.assertEqual(whole["holdfast"]["miss"]["cause"], "disabled")
                logprobs = whole["choices"][0]["logprobs"]
                for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
                    self.assertEqual(len(logprobs[key]), 60 + len(more))
                self.assertIsNone(logprobs["token_logprobs"][0])
                # The likeliest two after the 60 tokens, whether they are echoed or answered, to the bit.
                for name, value in answer["top_logprobs"][0].items():
                    self.assertEqual(logprobs["top_logprobs"][60][name], value)
            cold = server.complete(prompt=prompt + drawn, max_tokens=0, logprobs=2, echo=True)["choices"]
            warm = server.complete(prompt=prompt + drawn, max_tokens=3, logprobs=2, echo=True)["choices"]
            self.assertEqual(warm[0]["logprobs"]["token_logprobs"][:61], cold[0]["logprobs"]["token_logprobs"])
            self.assertEqual(server.complete(prompt=prompt + drawn)["usage"]["prompt_tokens_details"]["cached_tokens"], 60)

    def test_tenants_do_not_share_and_only_the_first_key_sees_the_pool(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder, "keys")
            keys.write_text("second,key\n\nthird\n")
            with Serving("--api-key", "first", "--api-key-file", str(keys)) as server:
                self.assertEqual(self.status(server.get, "/v1/models"), 401)
                self.assertEqual(self.status(server.get, "/v1/cache", "third"), 403)
                self.assertEqual(self.status(server.get, "/v1/cache", "first"), 200)
                body = {"prompt": [3 + i % 20 for i in range(64)], "max_tokens": 1}
                for key in ("second,key", "third"):
                    answer = json.loads(server.ask("/v1/completions", body, key))
                    self.assertEqual(answer["holdfast"]["reused_tokens"], 0, key)
                    self.assertEqual(answer["holdfast"]["miss"]["cause"], "new", key)
                again = json.loads(server.ask("/v1/completions", body, "third"))
                self.assertEqual(again["holdfast"]["reused_tokens"], 63)

    def test_what_can_never_fit_is_refused_with_the_numbers(self):
        with Serving() as server:
            with self.assertRaises(urllib.error.HTTPError) as refused:
                server.complete(prompt=[3] * 100, max_tokens=29)
            self.assertEqual(refused.exception.code, 400)
            message = json.loads(refused.exception.read())["error"]["message"]
            self.assertIn("129", message)
            self.assertIn("128", message)
            server.complete(prompt=[3] * 100, max_tokens=28)

    def test_a_client_that_leaves_frees_its_blocks(self):
        with Serving() as server:
            host = server.url[len("http://"):]
            for _ in range(20):
                client = http.client.HTTPConnection(host, timeout=30)
                client.request("POST", "/v1/completions", json.dumps({"prompt": [3, 4], "max_tokens": 120, "stream": True,
                                                                      "ignore_eos": True}))
                client.close()
            for _ in range(200):
                cache = json.loads(server.get("/v1/cache"))
                if not cache["sequences"] and cache["blocks"]["live"] == 0:
                    break
            self.assertEqual((cache["sequences"], cache["blocks"]["live"]), ([], 0))

    def test_a_wrong_command_line_exits_2_before_the_model_is_loaded(self):
        for arguments, word in ((("--host", "0.0.0.0"), "API key"), (("--cascade", "on"), "--cascade"),
                                (("--kv-cache-budget", "x"), "--kv-cache-budget"),
                                (("--kv-cache-budget", "0tokens"), "--kv-cache-budget"), (("--port", "70000"), "--port"),
                                (("--parallel", "0"), "--parallel"), (("--api-key", "a b"), "API key 1")):
            done = run("serve", "-m", "/no/such/model", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(word, done.stderr)

    def test_a_budget_is_kept(self):
        with Serving("--kv-cache-budget", "64tokens") as server:
            self.assertEqual(self.status(lambda: server.complete(prompt=[3] * 60, max_tokens=20)), 400)
            server.complete(prompt=[3] * 40, max_tokens=20)
        done = run("serve", "-m", MODEL, "--port", "0", "--kv-cache-budget", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("budget", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=["serve_test.py"], verbosity=1)
