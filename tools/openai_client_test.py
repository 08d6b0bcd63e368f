#!/usr/bin/env python3
"""The server as OpenAI's own Python client and Prometheus' own parser see it: `make test-clients`.

Starts `holdfast serve` on a free port, with two API keys, and drives it with the stock `openai` package.
"""
import asyncio
import json
import math
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import openai
from openai import AsyncOpenAI, OpenAI
from prometheus_client.parser import text_string_to_metric_families

PROGRAM, MODEL = sys.argv[1], sys.argv[2]
OPERATOR, TENANT = "operator-key", "tenant-key"
START_S, REQUEST_S = 120, 120
STORY = "The lighthouse keeper walked down the stairs and opened the door. Outside, the"
QUESTION = [{"role": "system", "content": "You answer briefly."}, {"role": "user", "content": "Name three colours."}]


class Serve:
    """A running server; `url` once it listens."""

    def __init__(self):
        self.keys = tempfile.NamedTemporaryFile("w", suffix=".keys")
        self.keys.write(f"{OPERATOR}\n{TENANT}\n")
        self.keys.flush()
        self.process = subprocess.Popen([PROGRAM, "serve", "-m", MODEL, "--port", "0", "--parallel", "8", "--kv-cache-budget",
                                         "512MiB", "--api-key-file", self.keys.name], stderr=subprocess.PIPE, text=True)
        self.log, self.url, listening = [], None, threading.Event()

        def read():
            for line in self.process.stderr:
                self.log.append(line)
                found = re.search(r"listening on (http://\S+)", line)
                if found:
                    self.url = found.group(1)
                    listening.set()
            listening.set()

        threading.Thread(target=read, daemon=True).start()
        if not listening.wait(START_S) or self.url is None:
            self.process.kill()
            raise RuntimeError("the server did not start: " + "".join(self.log))

    def stop(self):
        """The exit code after SIGTERM."""
        self.process.terminate()
        return self.process.wait(60)


def get(path, key=OPERATOR, body=None):
    """(status, headers, text)"""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(SERVER.url + path, data=data, headers=dict(headers, **{"Content-Type": "application/json"}))
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def cache():
    return json.loads(get("/v1/cache")[2])


def samples():
    """Every sample of /metrics, as Prometheus reads it: {(name, labels): value}"""
    found = {}
    for family in text_string_to_metric_families(get("/metrics")[2]):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.client = OpenAI(base_url=SERVER.url + "/v1", api_key=OPERATOR, max_retries=0, timeout=REQUEST_S)
        self.model = self.client.models.list().data[0].id

    def complete(self, prompt=STORY, **more):
        return self.client.completions.create(model=self.model, prompt=prompt,
                                              **dict({"max_tokens": 24, "temperature": 0}, **more))

    def chat(self, **more):
        return self.client.chat.completions.create(model=self.model, messages=QUESTION,
                                                   **dict({"max_tokens": 24, "temperature": 0}, **more))


class Models(ClientTest):
    def test_the_served_model_is_listed_and_found_by_name(self):
        self.assertEqual([m.id for m in self.client.models.list()], [self.model])
        self.assertEqual(self.client.models.retrieve(self.model).id, self.model)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("no-such-model")


class Completions(ClientTest):
    def test_a_completion_has_text_usage_and_a_reason(self):
        answer = self.complete()
        self.assertEqual(answer.object, "text_completion")
        self.assertEqual(answer.model, self.model)
        self.assertTrue(answer.choices[0].text)
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 24)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 24)

    def test_a_stream_says_the_same_as_a_plain_answer(self):
        plain = self.complete()
        chunks = list(self.complete(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].text for c in chunks if c.choices), plain.choices[0].text)
        self.assertGreater(len(chunks), 10)
        reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
        self.assertEqual(reasons[-1], "length")
        self.assertEqual(set(reasons[:-1]), {None})
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, 24)
        self.assertEqual(chunks[-1].usage.prompt_tokens, plain.usage.prompt_tokens)
        self.assertEqual({c.id for c in chunks}, {chunks[0].id})
        self.assertTrue(all(c.usage is None for c in self.complete(stream=True)), "usage was not asked for")

    def test_a_seed_repeats_and_choices_differ(self):
        one = self.complete(temperature=1.0, seed=5, n=3)
        two = self.complete(temperature=1.0, seed=5, n=3)
        texts = [c.text for c in sorted(one.choices, key=lambda c: c.index)]
        self.assertEqual(texts, [c.text for c in sorted(two.choices, key=lambda c: c.index)])
        self.assertEqual(len(set(texts)), 3)
        self.assertNotEqual(texts[0], self.complete(temperature=1.0, seed=6).choices[0].text)
        self.assertEqual(one.usage.completion_tokens, 72)
        unseeded = {self.complete(temperature=1.0).choices[0].text for _ in range(3)}
        self.assertEqual(len(unseeded), 3, "without a seed the server draws one")

    def test_a_stop_string_ends_the_text_before_it(self):
        text = self.complete().choices[0].text
        stop = text.split()[3]
        for stream in (False, True):
            with self.subTest(stream=stream):
                answer = self.complete(stop=[stop, "never said"], stream=stream)
                parts = [c.choices[0] for c in answer] if stream else answer.choices
                self.assertEqual("".join(p.text for p in parts), text[:text.index(stop)])
                self.assertEqual(parts[-1].finish_reason, "stop")

    def test_several_prompts_are_answered_apart(self):
        prompts = [STORY, "Water boils at", "One, two, three,"]
        together = self.complete(prompts)
        self.assertEqual([c.index for c in together.choices], [0, 1, 2])
        for choice, prompt in zip(together.choices, prompts):
            self.assertEqual(choice.text, self.complete(prompt).choices[0].text)

    def test_tokens_are_as_good_as_text(self):
        tokens = json.loads(get("/tokenize", body={"prompt": STORY})[2])["tokens"]
        self.assertEqual(self.complete(tokens).choices[0].text, self.complete().choices[0].text)
        self.assertEqual(json.loads(get("/detokenize", body={"tokens": tokens})[2])["prompt"], STORY)

    def test_echo_puts_the_prompt_first(self):
        self.assertEqual(self.complete(echo=True).choices[0].text, STORY + self.complete().choices[0].text)

    def test_log_probabilities_are_those_of_the_tokens(self):
        answer = self.complete(logprobs=3)
        found = answer.choices[0].logprobs
        self.assertEqual("".join(found.tokens), answer.choices[0].text)
        self.assertEqual(len(found.token_logprobs), 24)
        self.assertEqual(len(found.top_logprobs), 24)
        for token, logprob, top in zip(found.tokens, found.token_logprobs, found.top_logprobs):
            self.assertLessEqual(logprob, 0)
            self.assertAlmostEqual(max(top.values()), logprob, places=6, msg="greedy takes the most probable")
            self.assertIn(token, top)
            self.assertLessEqual(sum(math.exp(p) for p in top.values()), 1 + 1e-4)
        self.assertEqual(found.text_offset, sorted(found.text_offset))
        streamed = [c.choices[0].logprobs for c in self.complete(logprobs=3, stream=True)]
        self.assertEqual([p for s in streamed if s for p in s.token_logprobs], found.token_logprobs)

    def test_a_penalty_and_a_bias_change_the_text(self):
        text = self.complete().choices[0].text
        first = json.loads(get("/tokenize", body={"content": text})[2])["tokens"][0]
        self.assertFalse(text.startswith(self.complete(logit_bias={str(first): -100}).choices[0].text[:3]))
        self.assertNotEqual(text, self.complete(presence_penalty=2.0, frequency_penalty=2.0, max_tokens=24).choices[0].text)

    def test_many_at_once_get_what_each_gets_alone(self):
        prompts = [f"{STORY} {word}" for word in "sea wind gulls rain boat fog rocks moon".split()]
        alone = [self.complete(p).choices[0].text for p in prompts]

        async def together():
            async with AsyncOpenAI(base_url=SERVER.url + "/v1", api_key=TENANT, max_retries=0, timeout=REQUEST_S) as client:
                jobs = [client.completions.create(model=self.model, prompt=p, max_tokens=24, temperature=0) for p in prompts * 2]
                return [a.choices[0].text for a in await asyncio.gather(*jobs)]

        self.assertEqual(asyncio.run(together()), alone * 2)


class Chat(ClientTest):
    def test_a_turn_is_answered_by_the_assistant(self):
        answer = self.chat()
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertTrue(answer.choices[0].message.content)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))

    def test_a_stream_begins_with_the_role_and_says_the_same(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        plain = self.chat()
        self.assertEqual(text, plain.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, plain.usage.completion_tokens)

    def test_it_ends_by_itself_where_no_limit_is_given(self):
        answer = self.client.chat.completions.create(
            model=self.model, temperature=0, messages=[{"role": "user", "content": "Say yes."}])
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_log_probabilities_have_bytes_and_alternatives(self):
        answer = self.chat(logprobs=True, top_logprobs=4)
        content = answer.choices[0].logprobs.content
        # The token that ended the answer has no text.
        self.assertLessEqual(abs(len(content) - answer.usage.completion_tokens), 1)
        text = b"".join(bytes(token.bytes) for token in content).decode()
        self.assertTrue(text.startswith(answer.choices[0].message.content))
        for token in content:
            self.assertEqual(len(token.top_logprobs), 4)
            self.assertEqual(token.top_logprobs[0].token, token.token)
            self.assertEqual(token.top_logprobs[0].logprob, token.logprob)
            values = [top.logprob for top in token.top_logprobs]
            self.assertEqual(values, sorted(values, reverse=True))

    def test_choices_are_drawn_apart_and_parts_of_text_are_joined(self):
        answer = self.client.chat.completions.create(
            model=self.model, n=2, temperature=1.0, seed=3, max_completion_tokens=16,
            messages=[{"role": "user", "content": [{"type": "text", "text": "Tell me "}, {"type": "text", "text": "a story."}]}])
        self.assertEqual(len({c.message.content for c in answer.choices}), 2)
        joined = self.client.chat.completions.create(model=self.model, n=2, temperature=1.0, seed=3, max_completion_tokens=16,
                                                     messages=[{"role": "user", "content": "Tell me a story."}])
        self.assertEqual([c.message.content for c in answer.choices], [c.message.content for c in joined.choices])


class Reuse(ClientTest):
    def test_the_same_prompt_again_evaluates_one_token(self):
        prompt = "A remembered prompt: " + STORY * 20
        first, again = self.complete(prompt), self.complete(prompt)
        self.assertEqual(again.choices[0].text, first.choices[0].text)
        self.assertEqual(again.usage.prompt_tokens_details.cached_tokens, again.usage.prompt_tokens - 1)
        receipt = again.model_extra["holdfast"]
        self.assertEqual(receipt["reused_tokens"], again.usage.prompt_tokens - 1)
        self.assertIn("miss", receipt)

    def test_a_longer_match_that_failed_says_where(self):
        prompt = "Shared by two questions. " + STORY * 20
        self.complete(prompt + " The first question was")
        other = self.complete(prompt + " A second question was").model_extra["holdfast"]
        self.assertGreater(other["reused_tokens"], 100)
        self.assertTrue(other["miss"]["cause"])
        self.assertGreaterEqual(other["miss"]["position"], other["reused_tokens"])

    def test_a_tenant_does_not_reuse_what_another_said(self):
        prompt = "Only mine. " + STORY * 20
        self.complete(prompt)
        tenant = OpenAI(base_url=SERVER.url + "/v1", api_key=TENANT, max_retries=0, timeout=REQUEST_S)
        answer = tenant.completions.create(model=self.model, prompt=prompt, max_tokens=4, temperature=0)
        self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(answer.model_extra["holdfast"]["reused_tokens"], 0)


class Errors(ClientTest):
    def refused(self, kind, words, **more):
        with self.assertRaises(kind) as caught:
            self.complete(**more)
        self.assertEqual(caught.exception.body["type"], "invalid_request_error")
        self.assertRegex(caught.exception.body["message"], words)

    def test_bad_requests_say_what_is_wrong(self):
        self.refused(openai.BadRequestError, "temperature.*2", temperature=3)
        self.refused(openai.BadRequestError, "max_tokens", max_tokens=-1)
        self.refused(openai.BadRequestError, "max_tokens", extra_body={"max_tokens": "many"})
        self.refused(openai.BadRequestError, "stop", stop="")
        self.refused(openai.BadRequestError, "token", prompt=[10 ** 9])
        self.refused(openai.BadRequestError, "tools", extra_body={"tools": [{"type": "function"}]})
        with self.assertRaises(openai.BadRequestError):
            self.client.chat.completions.create(model=self.model, messages=[])

    def test_what_can_never_fit_is_refused_with_the_numbers(self):
        limit = self.client.models.list().data[0].model_extra["max_model_len"]
        self.refused(openai.BadRequestError, str(limit), prompt=[5] * (limit + 1))

    def test_a_field_nobody_knows_is_ignored(self):
        answer = self.complete(extra_body={"no_such_field": {"x": [1]}}, user="somebody")
        self.assertEqual(answer.choices[0].text, self.complete().choices[0].text)

    def test_a_wrong_key_opens_nothing_and_a_tenants_not_the_operators_pages(self):
        with self.assertRaises(openai.AuthenticationError):
            OpenAI(base_url=SERVER.url + "/v1", api_key="wrong", max_retries=0).models.list()
        self.assertEqual(get("/v1/models", key=None)[0], 401)
        self.assertEqual(get("/health", key=None)[0], 200)
        for path in ("/metrics", "/v1/cache", "/"):
            self.assertEqual(get(path, key=TENANT)[0], 403, path)
            self.assertEqual(get(path)[0], 200, path)


class Operation(ClientTest):
    def test_prometheus_reads_the_metrics_and_they_add_up(self):
        status, headers, text = get("/metrics")
        self.assertEqual(status, 200)
        self.assertIn("text/plain; version=0.0.4", headers["Content-Type"])
        before = samples()
        usage = self.complete("Counted: " + STORY).usage
        after = samples()
        grown = lambda name: after[name, ()] - before[name, ()]
        self.assertEqual(grown("holdfast_generated_tokens_total"), usage.completion_tokens)
        self.assertEqual(grown("holdfast_prompt_tokens_total"), usage.prompt_tokens)
        self.assertEqual(grown("holdfast_time_to_first_token_seconds_count"), 1)
        self.assertEqual(grown("holdfast_token_gap_seconds_count"), usage.completion_tokens - 1)
        self.assertGreater(grown("holdfast_time_to_first_token_seconds_sum"), 0)
        ended = "holdfast_requests_finished_total", (("reason", "length"),)
        self.assertEqual(after[ended] - before[ended], 1)
        kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
        self.assertEqual(kinds["holdfast_generated_tokens"], "counter")
        self.assertEqual(kinds["holdfast_requests_running"], "gauge")
        for family in text_string_to_metric_families(text):
            self.assertTrue(family.documentation, family.name)
            if family.type != "histogram":
                continue
            buckets = [s.value for s in family.samples if s.name.endswith("_bucket")]
            self.assertEqual(buckets, sorted(buckets), family.name)
            self.assertEqual(buckets[-1], next(s.value for s in family.samples if s.name.endswith("_count")))

    def test_the_pool_is_within_its_budget_and_its_blocks_add_up(self):
        pool = cache()
        self.assertLessEqual(pool["allocated_bytes"], pool["budget_bytes"])
        self.assertEqual(pool["budget_bytes"], 512 << 20)
        blocks = pool["blocks"]
        self.assertEqual(blocks["total"], blocks["free"] + blocks["live"] + blocks["idle"])
        values = samples()
        self.assertEqual(values["holdfast_cache_budget_bytes", ()], pool["budget_bytes"])
        for state in ("free", "live", "idle"):
            self.assertEqual(values["holdfast_cache_blocks", (("state", state),)], blocks[state], state)
        self.assertGreaterEqual(pool["hits"], 0)
        self.assertTrue(all(isinstance(n, int) for n in pool["misses"].values()))

    def test_a_client_that_leaves_gives_its_blocks_back(self):
        stream = self.complete("Leaving soon. " + STORY, stream=True, max_tokens=4000, extra_body={"ignore_eos": True})
        next(iter(stream))
        running = cache()
        self.assertEqual(len(running["sequences"]), 1)
        self.assertGreater(running["blocks"]["live"], 0)
        self.assertEqual(set(running["sequences"][0]), {"id", "state", "tokens", "blocks"})
        stream.close()
        until = time.monotonic() + 20
        while cache()["sequences"] and time.monotonic() < until:
            time.sleep(0.02)
        left = cache()
        self.assertEqual(left["sequences"], [])
        self.assertEqual(left["blocks"]["live"], 0)


if __name__ == "__main__":
    SERVER = Serve()
    try:
        result = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False, verbosity=2).result
    finally:
        code = SERVER.stop()
    if code != 0:
        print(f"the server ended with {code}: {''.join(SERVER.log[-5:])}", file=sys.stderr)
    sys.exit(0 if result.wasSuccessful() and code == 0 and result.testsRun > 0 else 1)
