"""Attacks on what all users share beside time: names, places, answers, room of the log, decisions, budgets.

An attacker at 127.0.0.2 begins, then another user at 127.0.0.1 comes. Each row is what that one gets.

    python3 tests/load/attacks_shared.py [NAME ...]
"""

import collections
import contextlib
import http.client
import http.server
import json
import os
import socket
import sys
import tempfile
import threading
import time

from attacks_pages import TOKEN, config as pages_config
from harness import (Collector, agent, close, compact, for_seconds, free_ports, ordinary, percentile, request, span,
                     tool, trace)

ATTACKER, OTHER = ("127.0.0.2", 0), ("127.0.0.1", 0)
BEARER = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}


class Peer:
    """Sends from an address, over one connection for each thread."""

    def __init__(self, collector, address):
        self.collector, self.address, self.of_thread = collector, address, threading.local()

    def post(self, body):
        """The status of an answer, or the kind of error."""
        connection = getattr(self.of_thread, "connection", None)
        try:
            if connection is None:
                port = self.collector.http
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30, source_address=self.address)
                self.of_thread.connection = connection
            connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException) as error:
            self.of_thread.connection = None
            return type(error).__name__

    def post_all(self, bodies):
        """Sends each until it is taken."""
        for body in bodies:
            while self.post(body) in (429, 503):
                time.sleep(0.05)


def ask(collector, address, path, body=None):
    """Status, text and seconds of an answer of the interface."""
    connection = http.client.HTTPConnection("127.0.0.1", collector.pages, timeout=30, source_address=address)
    began = time.monotonic()
    try:
        connection.request("POST" if body else "GET", f"/api/v1/{path}", body, BEARER)
        answer = connection.getresponse()
        return answer.status, answer.read(), time.monotonic() - began
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__, b"", time.monotonic() - began
    finally:
        connection.close()


def unread(collector, address, path):
    """A connection that has asked and reads nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.bind(address)
    connection.settimeout(3)
    connection.connect(("127.0.0.1", collector.pages))
    head = f"GET /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def start(more="", evaluators="{tool_error: , tool_efficiency: }", memory=256):
    port, shown = pages_config()
    collector = Collector(f"evaluators: {evaluators}\nexporters: {{prometheus: }}\n{shown}\n"
                          f"limits: {{memory_mib: {memory}}}\n{more}")
    collector.pages = port
    return collector


def run(name="t", calls=1, **attributes):
    own, root = os.urandom(16), os.urandom(8)
    return [agent(own, root, **attributes)] + [tool(own, root, name, number=n) for n in range(calls)]


def runs(count, **of):
    return [one for _ in range(count) for one in run(**of)]


def stored(collector, path, seconds=10):
    """The number of items of an answer, once there are some."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        items = json.loads(ask(collector, OTHER, path)[1] or "{}").get("items")
        if items:
            return len(items)
        time.sleep(0.3)
    return 0


def beside(work, threads, seconds, other):
    """Answers of the attacker, and status and seconds of the other's."""
    counts, of_other, times = [], collections.Counter(), []
    attack = threading.Thread(target=lambda: counts.append(for_seconds(seconds, work, threads)))
    attack.start()
    time.sleep(1)
    while attack.is_alive():
        status, _, took = other()
        of_other[status] += 1
        times.append(took)
        time.sleep(0.1)
    return f"other {dict(of_other)}, p99 {percentile(times, 0.99) * 1000:.0f} ms; attacker {counts[0]}"


def sources():
    """2,400 services, each with a run; then a new service of the other."""
    collector = start()
    bodies = (b"".join(request(run(), f"flood-{k}-{n}") for n in range(40)) for k in range(60))
    Peer(collector, ATTACKER).post_all(bodies)
    time.sleep(10)
    Peer(collector, OTHER).post(request(run(), "other-service"))
    return collector, f"runs under the other's own service: {stored(collector, 'traces?service=other-service')} of 1"


def tools():
    """6,000 names of tools, then a new tool of the other."""
    collector = start()
    def flood(number):
        own, root = os.urandom(16), os.urandom(8)
        calls = [tool(own, root, f"t{number}-{n}", number=n) for n in range(100)]
        return request([agent(own, root)] + calls, "flood")
    Peer(collector, ATTACKER).post_all(flood(number) for number in range(60))
    time.sleep(5)
    Peer(collector, OTHER).post(request(run("others_tool"), "other"))
    return collector, f"runs under the other's own tool: {stored(collector, 'traces?tool=others_tool')} of 1"


def queries():
    """Sixty questions at once over 12,000 runs, whose texts are searched."""
    collector = start(memory=1024)
    Peer(collector, ATTACKER).post_all(request(runs(200, calls=2), f"filled{k % 5}") for k in range(60))
    time.sleep(8)
    slow = ["evaluations?text=zzzzqqq&limit=500", "traces?text=zzzq&sort=worst&limit=500",
            "compare?a=text%3Dzz&b=text%3Dqq"]
    numbers = iter(range(1 << 30))
    work = lambda: ask(collector, ATTACKER, slow[next(numbers) % 3])[0]
    return collector, beside(work, 60, 8, lambda: ask(collector, OTHER, "traces?limit=1"))


def inspections():
    """Pasted requests of 3 MB, six at a time."""
    collector = start(memory=1024)
    one = {"traceId": "%032x" % 7, "name": "x", "startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": [
        {"key": "tool.name", "value": {"stringValue": "t"}}]}
    def pasted(count):
        spans = [one | {"spanId": "%016x" % (n + 1)} for n in range(count)]
        return compact({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    large, small = pasted(12000), pasted(2)
    work = lambda: ask(collector, ATTACKER, "inspect", large)[0]
    return collector, beside(work, 6, 6, lambda: ask(collector, OTHER, "inspect", small))


def answers():
    """250 answers of 2.3 MB that nobody reads, with a limit of 256 MiB."""
    collector = start()
    own, root = os.urandom(16), os.urandom(8)
    calls = [tool(own, root, "a_tool_with_a_name", number=n) for n in range(10000)]
    Peer(collector, OTHER).post(request([agent(own, root)] + calls, "big"))
    path, size, end = f"traces/{own.hex()}", 0, time.monotonic() + 60
    while size < 1 << 20 and time.monotonic() < end:
        time.sleep(0.5)
        size = len(ask(collector, OTHER, path)[1])
    idle = collector.status("VmRSS")
    collector.forget_peak()
    held = []
    for _ in range(250):
        with contextlib.suppress(OSError):
            held.append(unread(collector, ATTACKER, path))
        time.sleep(0.05)
    time.sleep(5)
    status = ask(collector, OTHER, "traces?limit=1")[0]
    close(held)
    return collector, (f"peak {collector.status('VmHWM'):.0f} of {1.1 * 256 + idle:.0f} MiB ({size} bytes each), "
                       f"other {status}")


def streams():
    """Seventy streams of one address, then one of the other."""
    collector = start()
    held = [unread(collector, ATTACKER, "stream") for _ in range(70)]
    time.sleep(1)
    held.append(unread(collector, OTHER, "stream"))
    head = held[-1].recv(64).split(b"\r\n")[0].decode()
    close(held)
    return collector, f"other {head}"


def connections():
    """Connections to the pages, one behind the other, 400 kept open; a kept one of the other asks."""
    collector, held, is_going = start(), [], [True]
    def flood():
        while is_going[0]:
            with contextlib.suppress(OSError):
                one = socket.socket()
                one.bind(ATTACKER)
                one.connect(("127.0.0.1", collector.pages))
                held.append(one)
                if len(held) > 400:
                    held.pop(0).close()
    attack = threading.Thread(target=flood)
    attack.start()
    time.sleep(1)
    statuses, kept = collections.Counter(), None
    for _ in range(40):
        try:
            kept = kept or http.client.HTTPConnection("127.0.0.1", collector.pages, timeout=5)
            kept.request("GET", "/api/v1/traces?limit=1", headers=BEARER)
            answer = kept.getresponse()
            answer.read()
            statuses[answer.status] += 1
        except (OSError, http.client.HTTPException) as error:
            statuses[type(error).__name__] += 1
            kept = None
        time.sleep(0.1)
    is_going[0] = False
    attack.join()
    close(held)
    return collector, f"other {dict(statuses)}"


def backlog():
    """A forward whose backend is away, a log of 64 MiB, until the attacker is refused sixty times."""
    dead, = free_ports(1)
    folder = tempfile.TemporaryDirectory()
    collector = start(f"data_dir: {folder.name}\nlog: {{size_max_mib: 64}}\n"
                      f"forward: {{otlp_http/x: {{endpoint: 'http://127.0.0.1:{dead}'}}}}", memory=1024)
    collector.kept = folder
    attacker, other = Peer(collector, ATTACKER), Peer(collector, OTHER)
    counts, count, end = collections.Counter(), 0, time.monotonic() + 40
    while counts[503] < 60 and time.monotonic() < end:
        counts[attacker.post(trace(result=os.urandom(50_000).hex()))] += 1
        count += 1
        if count % 20 == 0:
            other.post(ordinary())
    after = collections.Counter(other.post(ordinary()) for _ in range(100))
    return collector, f"other {dict(after)}; attacker {dict(counts)}"


class Sink(http.server.BaseHTTPRequestHandler):
    """A backend that keeps what it is sent, and answers with a text."""

    def do_POST(self):
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", self.server.kind)
        self.send_header("content-length", str(len(self.server.text)))
        self.end_headers()
        self.wfile.write(self.server.text)

    def log_message(self, *_):
        pass


def sink(kind="application/x-protobuf", text=b""):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    server.bodies, server.kind, server.text = [], kind, text
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def decisions():
    """A forward of agents' traces: a flood of traces, then late spans of the other's traces."""
    backend = sink()
    collector = start(f"forward: {{otlp_http/x: {{endpoint: 'http://127.0.0.1:{backend.server_port}', "
                      "compression: none, traces: agent}}\ntraces: {remember_period: 60s}", memory=96)
    attacker, other = Peer(collector, ATTACKER), Peer(collector, OTHER)
    ids = [(os.urandom(16), os.urandom(8)) for _ in range(30)]
    for own, root in ids:
        other.post(request([agent(own, root), tool(own, root, "t")], "other"))
    time.sleep(4)
    for_seconds(8, lambda: attacker.post(request(runs(20), "flood")), 4)
    time.sleep(3)
    late = [os.urandom(6).hex() for _ in ids]
    for (own, root), name in zip(ids, late):
        other.post(request([span(own, os.urandom(8), root, name, {"a": "b"})], "other"))
    time.sleep(5)
    arrived = sum(any(name.encode() in body for body in backend.bodies) for name in late)
    backend.shutdown()
    return collector, f"late spans of the other's decided traces that arrived within 5 s: {arrived} of 30"


def budget():
    """A judge's budget of an hour, spent by a flood of traces."""
    reply = {"id": "x", "object": "chat.completion", "model": "m", "choices": [{
        "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "{}"}}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 50, "total_tokens": 550}}
    judge = sink("application/json", compact(reply).encode())
    collector = start(f"judges: {{j: {{api: openai, base_url: 'http://127.0.0.1:{judge.server_port}/v1', model: m, "
                      "api_key_env: HOME, budget: {tokens_per_hour: 200000}}}\njudging: {settle: 1s}",
                      "{goal_accuracy: {judge: j}}")
    attacker, other = Peer(collector, ATTACKER), Peer(collector, OTHER)
    for_seconds(6, lambda: attacker.post(request(run(), "flood")), 4)
    for _ in range(10):
        other.post(request(run(), "other"))
        time.sleep(0.2)
    time.sleep(10)
    found = json.loads(ask(collector, OTHER, "evaluations?service=other")[1] or "{}").get("items", [])
    judge.shutdown()
    return collector, f"other {dict(collections.Counter(one.get('reason') or one['outcome'] for one in found))}"


ALL = [sources, tools, queries, inspections, answers, streams, connections, backlog, decisions, budget]


def main():
    known = {attack.__name__: attack for attack in ALL}
    for name in sys.argv[1:] or known:
        collector, row = known[name]()
        print(f"{name:12} {row}", flush=True)
        collector.stop()


if __name__ == "__main__":
    main()
