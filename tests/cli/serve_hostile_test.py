#!/usr/bin/env python3
"""serve against clients that mean no good, or are gone: blocks, memory and descriptors come back."""
import json
import os
import random
import re
import resource
import socket
import threading
import time
import unittest
import urllib.parse

from serve_test import Serving

CONNECTIONS = 10_000
DISCONNECTS = 1_000
DEAF = 100


def head_and_body(**fields):
    body = json.dumps({"prompt": [3, 4, 5, 6], "max_tokens": 8, "temperature": 0, **fields}).encode()
    return b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body


class Hostile(unittest.TestCase):
    def address(self, server):
        url = urllib.parse.urlparse(server.url)
        return url.hostname, url.port

    def resident_kib(self, server):
        with open(f"/proc/{server.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def finished(self, server, how):
        found = re.search(r'requests_finished_total{reason="%s"} (\d+)' % how, server.get("/metrics"))
        return int(found.group(1))

    def settled(self, server):
        """The pool once nothing runs."""
        for _ in range(300):
            pool = json.loads(server.get("/v1/cache"))
            if not pool["sequences"] and pool["blocks"]["live"] == 0:
                return pool
            time.sleep(0.1)
        self.fail(f"still there: {pool['sequences']}, {pool['blocks']}")

    def test_a_thousand_clients_that_leave_at_random_points_leave_no_block_behind(self):
        with Serving("--kv-prefix-sharing", "off") as server:
            start = self.settled(server)["blocks"]

            def leave(seed):
                r = random.Random(seed)
                request = head_and_body(prompt=[r.randrange(3, 200) for _ in range(r.randrange(1, 90))],
                                        max_tokens=r.randrange(1, 30), stream=r.random() < 0.5)
                with socket.create_connection(self.address(server), timeout=30) as client:
                    client.sendall(request[:r.randrange(len(request))] if r.random() < 0.2 else request)
                    if r.random() < 0.5:
                        client.settimeout(r.random() * 0.02 + 0.001)
                        try:
                            client.recv(r.randrange(1, 500))
                        except OSError:
                            pass

            workers = [threading.Thread(target=lambda k=k: [leave(i) for i in range(k, DISCONNECTS, 8)]) for k in range(8)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            end = self.settled(server)
            self.assertEqual(start, end["blocks"])
            self.assertGreater(self.finished(server, "cancelled"), 0)
            self.assertGreater(self.finished(server, "length"), 0)
            self.assertEqual(json.loads(server.ask("/v1/completions", {"prompt": [3], "max_tokens": 2}))["object"],
                             "text_completion")

    def test_clients_that_do_not_read_hold_up_nobody(self):
        with Serving("--kv-prefix-sharing", "off") as server:
            start = self.settled(server)["blocks"]
            deaf = []
            for _ in range(DEAF):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                client.connect(self.address(server))
                client.sendall(head_and_body(stream=True, max_tokens=100))
                deaf.append(client)
            self.assertEqual(server.complete()["usage"]["completion_tokens"], 8)
            for client in deaf:
                client.close()
            self.assertEqual(start, self.settled(server)["blocks"])

    def test_ten_thousand_connections_take_bounded_memory(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = min(CONNECTIONS, hard - 200)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))
        try:
            with Serving("--max-connections", "256") as server:
                server.complete()
                before = self.resident_kib(server)
                clients = []
                for i in range(count):
                    client = socket.socket()
                    client.setblocking(False)
                    client.connect_ex(self.address(server))
                    clients.append(client)
                for client in clients[:1000]:
                    try:
                        client.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n")
                    except OSError:
                        pass
                time.sleep(0.5)
                self.assertLess(len(os.listdir(f"/proc/{server.process.pid}/fd")), 256 + 64)
                self.assertLess(self.resident_kib(server) - before, 32 << 10)
                for client in clients:
                    client.close()
                self.assertEqual(server.complete()["usage"]["completion_tokens"], 8)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


if __name__ == "__main__":
    unittest.main(argv=["serve_hostile_test.py"], verbosity=1)
