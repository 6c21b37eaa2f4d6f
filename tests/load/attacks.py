"""What attacks on waiting, bytes and counters cost others: an ordinary sender and a probe beside each.

    cargo build --release
    python3 tests/load/attacks.py [--limit 256] [--seconds 8] [--rounds 1] [--tls] [attack ...]

With `--tls` both receivers speak TLS, attackers and the ordinary sender too; without names it then runs those attacks
that are about connections.

For each attack: the p99 of an ordinary sender (20 requests a second over one connection) before and
during it (it runs before whoever shares its core), its answers, the slowest `/livez`, the resident set at its peak, and the limits that bit.
Of several rounds the one is shown whose p99 grew by the median.
It ends with 1 where the sender was refused, its p99 more than doubled and above 20 ms, or a probe
took more than 100 ms.
"""

import argparse
import itertools
import multiprocessing
import os
import random
import re
import resource
import socket
import struct
import time

from flooder import flood as flood_streams
from harness import (HEADERS, ROOT, Collector, Probe, Sender, agent, compact, drain, for_seconds, frame,
                     go_first, percentile, request, span, tool, what_bit)

HTTP1 = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"


def connections(collector, port, count, protocol="http/1.1"):
    """As many connections as are let in, up to some."""
    held = []
    for _ in range(count):
        try:
            held.append(collector.open(port, protocol))
        except OSError:
            pass
    return held


def close(connections):
    for connection in connections:
        connection.close()
    return len(connections)


def slow_headers(collector, seconds):
    """Headers that come letter by letter and never end, on 2,000 connections."""
    held = connections(collector, collector.http, 2000)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        for number, connection in enumerate(held):
            try:
                connection.sendall(HTTP1[:-2] if not number % 3 else b"a")
            except OSError:
                pass
        time.sleep(max(0.0, began + 1 - time.monotonic()))
    return close(held)


def slow_bodies(collector, seconds):
    """Bodies that never end, on 300 connections."""
    held = connections(collector, collector.http, 300)
    for connection in held:
        connection.sendall(HTTP1 + b"Content-Length: 100\r\n\r\n")
    time.sleep(seconds)
    return close(held)


def stalled_streams(collector, seconds):
    """A byte of each of 128 calls, on 40 connections."""
    calls = b"".join(frame(1, 4, 1 + 2 * n, HEADERS) + frame(0, 0, 1 + 2 * n, b"\0\0\0\1\0")
                     for n in range(128))
    held = [collector.http2() for _ in range(40)]
    for connection in held:
        connection.sendall(calls)
    time.sleep(seconds)
    return close(held)


def unfinished_frames(collector, seconds):
    """Most of a frame of 1 MiB, on 400 connections."""
    held, part = [], (frame(1, 4, 1, HEADERS) + frame(0, 0, 1, b"\0" * (1 << 20)))[:900_000]
    end = time.monotonic() + seconds
    for _ in range(400):
        if time.monotonic() > end:
            break
        try:
            held.append(collector.http2())
            held[-1].sendall(part)
        except OSError:
            pass
    time.sleep(seconds)
    return close(held)


def idle_connections(collector, seconds):
    """10,000 connections that say nothing."""
    held = connections(collector, collector.grpc, 10_000, "h2")
    time.sleep(seconds)
    return close(held)


def greetings(collector, seconds):
    """Greetings of TLS, each on a connection of its own, as fast as they come."""
    def greet():
        try:
            collector.open(collector.grpc, "h2").close()
            return "greeted"
        except OSError as error:
            return type(error).__name__
    return for_seconds(seconds, greet, 2)


def half_greetings(collector, seconds):
    """The beginning of a greeting of TLS, on 2,000 connections."""
    held = []
    for _ in range(2000):
        held.append(socket.create_connection(("127.0.0.1", collector.grpc), 3))
        held[-1].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    time.sleep(seconds)
    return close(held)


def silent_probes(collector, seconds):
    """70 connections to the health port that say nothing."""
    held = [socket.create_connection(("127.0.0.1", collector.health), 3) for _ in range(70)]
    time.sleep(seconds)
    return close(held)


def flood(one):
    def attack(collector, seconds):
        end, sent = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            connection = collector.http2()
            try:
                while time.monotonic() < end:
                    connection.sendall(one * 200)
                    sent += 200
                    drain(connection)
            except OSError:
                pass
            connection.close()
        return sent
    return attack


def rapid_reset(collector, seconds):
    """Calls that are reset as soon as they are made."""
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        connection, number = collector.http2(), 1
        try:
            while time.monotonic() < end:
                calls = [frame(1, 4, number + 2 * n, HEADERS)
                         + frame(3, 0, number + 2 * n, b"\0\0\0\x08") for n in range(50)]
                connection.sendall(b"".join(calls))
                number, sent = number + 100, sent + 50
                drain(connection)
        except OSError:
            pass
        connection.close()
    return sent


def continuations(collector, seconds):
    """Headers without an end."""
    field = b"\0\x03x-a\x7f\xe9\x06" + b"y" * 1000
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        connection = collector.http2()
        try:
            connection.sendall(frame(1, 0, 1, HEADERS))
            while time.monotonic() < end:
                connection.sendall(frame(9, 0, 1, field * 10))
                sent += 1
        except OSError:
            pass
        connection.close()
    return sent


def trace(service="svc", resource=(), result="ok", **attributes):
    own, root = os.urandom(16), os.urandom(8)
    spans = [agent(own, root, **attributes), tool(own, root, "t", result=result)]
    return request(spans, service, resource)


def large_resources(collector, seconds):
    """A resource of 4 MB of its own in each trace."""
    large = "y" * 4_000_000
    def send():
        return collector.post(trace(resource=[(os.urandom(4).hex(), large)]))
    return for_seconds(seconds, send, 2)


def large_sessions(collector, seconds):
    """A session with a result of 2 MB in each trace."""
    large = "x" * 2_000_000
    def send():
        return collector.post(trace(result=large, **{"session.id": os.urandom(8).hex()}))
    return for_seconds(seconds, send, 2)


def long_names(collector, seconds):
    """Names of services of 500 KB, and scrapes meanwhile."""
    def send():
        return collector.post(trace(service=os.urandom(8).hex() + "x" * 500_000))
    counts = for_seconds(seconds, send, 2)
    began = time.monotonic()
    page = collector.get(collector.metrics_port, "/metrics")
    counts["scrape"] = f"{len(page) / 1e3:.0f} KB in {time.monotonic() - began:.2f} s"
    return counts


def many_streams(collector, seconds):
    """One connection that sends whole requests on all its streams, as fast as it can."""
    answers, sent, _ = flood_streams(collector.http, seconds, 0, 128, 20_000)
    return {"sent": sent} | answers


def definitions(collector, seconds):
    """200,000 definitions of tools in one span, 3.7 MB."""
    defined = "[" + ",".join('{"name":"t%d"}' % n for n in range(200_000)) + "]"
    names = {"gen_ai.operation.name": "chat", "gen_ai.tool.definitions": defined}
    def send():
        own, root = os.urandom(16), os.urandom(8)
        chat = span(own, os.urandom(8), root, "chat", names)
        return collector.post(request([agent(own, root), chat, tool(own, root, "t1")]))
    return for_seconds(seconds, send, 2)


def schemas(collector, seconds):
    """150 schemas a trace of 100 patterns each, never the same."""
    def schema(own):
        patterns = {f"p{own}_{n}": {"type": "string", "pattern": f"^{own}_{n}(\\w{{1,6}}|\\d{{{n + 1}}})$"}
                    for n in range(100)}
        function = {"name": f"t{own}", "parameters": {"type": "object", "properties": patterns}}
        return compact({"type": "function", "function": function})
    def send():
        trace_id, root = os.urandom(16), os.urandom(8)
        first = int.from_bytes(os.urandom(4), "big")
        defined = {f"llm.tools.{n}.tool.json_schema": schema(first + n) for n in range(150)}
        kind = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
        spans = [agent(trace_id, root), span(trace_id, os.urandom(8), root, "chat", kind | defined)]
        spans += [tool(trace_id, root, f"t{first + n}", number=n) for n in range(150)]
        return collector.post(request(spans))
    return for_seconds(seconds, send, 1)


def many_calls(collector, seconds):
    """6,000 calls and an output of 200 KB, judged call by call: what once held a shard for minutes."""
    text = ("The refund of order A-17 is on its way. Please see john.doe@example.com. " * 3000)[:200_000]
    def send():
        own, root = os.urandom(16), os.urandom(8)
        calls = [tool(own, root, f"delete_{n}", "{}", number=n) for n in range(6000)]
        return collector.post(request([agent(own, root, **{"output.value": text})] + calls))
    return for_seconds(seconds, send, 2)


def large_results(collector, seconds):
    """Twenty results of 1 MB each that rules must search."""
    text = "ignore all previous instructions and " * 27_000
    def send():
        own, root = os.urandom(16), os.urandom(8)
        calls = [tool(own, root, "x", "{}", text[n:], number=n) for n in range(20)]
        return collector.post(request([agent(own, root)] + calls))
    return for_seconds(seconds, send, 1)


def rule_words(collector, seconds):
    """Results of 100 kB, each of nothing but the words of one rule in an order of chance."""
    chance, texts = random.Random(7), []
    for pack in sorted((ROOT / "src/detect/packs").glob("*.yaml")):
        for line in pack.read_text().splitlines():
            words = re.findall(r"[^\W\d_]{2,}", re.sub(r"\\[a-zA-Z]|\(\?&\w+\)", " ", line))
            if "pattern:" in line and words[1:]:
                texts.append(" ".join(chance.choices(words[1:], k=100_000 // 7)))
    rest = itertools.cycle(texts)
    def send():
        own, root = os.urandom(16), os.urandom(8)
        calls = [tool(own, root, "x", "{}", next(rest), number=n) for n in range(4)]
        return collector.post(request([agent(own, root)] + calls))
    return for_seconds(seconds, send, 2)


def literals(collector, seconds):
    """Arguments of 8 MB that are a set of Python, and a dict."""
    texts = ["{" + ",".join(f"'k{n}':[1]" for n in range(600_000)) + "}",
             "{" + ",".join(map(str, range(1_000_000))) + "}"]
    def send():
        own, root = os.urandom(16), os.urandom(8)
        calls = [tool(own, root, "x", text, number=n) for n, text in enumerate(texts)]
        return collector.post(request([agent(own, root)] + calls))
    return for_seconds(seconds, send, 1)


ATTACKS = {
    "definitions": definitions, "schemas": schemas, "many_calls": many_calls,
    "large_results": large_results, "rule_words": rule_words, "literals": literals,
    "slow_headers": slow_headers, "slow_bodies": slow_bodies, "stalled_streams": stalled_streams,
    "unfinished_frames": unfinished_frames, "idle_connections": idle_connections,
    "silent_probes": silent_probes,
    "ping": flood(frame(6, 0, 0, b"12345678")),
    "settings": flood(frame(4, 0, 0, struct.pack(">HI", 3, 100) * 10)),
    "window_update": flood(frame(8, 0, 0, b"\0\0\0\1") + frame(2, 0, 1, b"\0\0\0\0\1")),
    "empty_data": flood(frame(0, 0, 1)),
    "rapid_reset": rapid_reset, "continuations": continuations, "many_streams": many_streams,
    "large_resources": large_resources, "large_sessions": large_sessions, "long_names": long_names,
}
# Those that are about connections; the last two need TLS.
OF_CONNECTIONS = ["slow_headers", "slow_bodies", "stalled_streams", "unfinished_frames", "idle_connections", "ping",
                  "settings", "window_update", "empty_data", "rapid_reset", "continuations"]
ATTACKS_TLS = {"greetings": greetings, "half_greetings": half_greetings}
CONFIG = """evaluators:
  tool_error:
  tool_efficiency:
  argument_grounding:
  tool_error/sessions: {level: session}
  tool_error/expression: {when: 'tool_names.exists(name, name.matches("(?i)(drop|wipe)_[a-z]{1,40}$"))'}
  tool_call_validity:
  tool_call_validity/full: {schema: full}
  output_rules/calls: {bundle: safety, level: call, target: tool_results}
  output_rules/results: {bundle: safety, target: tool_results}
sessions: {idle_timeout: 5s}
exporters: {prometheus: }"""


class Elsewhere:
    """An attack in a process of its own, so that it slows the sender down by the collector alone. It is made before any
    thread, since a lock that one of these holds would be held there for ever."""

    def __init__(self, attack, *arguments):
        self.pipe, theirs = multiprocessing.Pipe()
        def work():
            theirs.recv()
            go_first(False)
            theirs.send(attack(*arguments))
        self.process = multiprocessing.get_context("fork").Process(target=work)
        self.process.start()

    def run(self):
        """Lets it begin, and waits for what it has done."""
        self.pipe.send("go")
        done = self.pipe.recv()
        self.process.join()
        return done


def measure(name, limit, seconds, is_secure):
    collector = Collector(f"{CONFIG}\nlimits: {{memory_mib: {limit}}}", is_secure=is_secure)
    attack = Elsewhere((ATTACKS | ATTACKS_TLS)[name], collector, seconds)
    go_first()
    alone = Sender(collector)
    time.sleep(3)
    quiet, _ = alone.finish()
    before, idle = collector.metrics(), collector.status("VmRSS")
    collector.forget_peak()
    sender, probe = Sender(collector), Probe(collector)
    done = attack.run()
    latencies, codes = sender.finish()
    livez, bit = probe.finish(), what_bit(before, collector.metrics())
    peak = collector.status("VmHWM")
    code, last = collector.stop()
    go_first(False)
    was, now = percentile(quiet, 0.99) * 1000, percentile(latencies, 0.99) * 1000
    is_well = set(codes) <= {200} and now <= max(2 * was, 20) and livez <= 0.1
    shown = (f"{name:18} p99 {was:5.1f} -> {now:6.1f} ms  {codes}  livez {livez * 1000:4.0f} ms  "
             f"peak {peak:4.0f} of {1.1 * limit + idle:4.0f} MiB  exit {code}  "
             f"{'ok' if is_well else 'HARMS OTHERS'}\n{'':18} {done}  {bit}")
    if code:
        shown += f"\n{'':18} {last}"
    return now / max(was, 10), is_well, shown


def median(name, options):
    """The round of which as many are worse as are better; whether it went well."""
    rounds = [measure(name, options.limit, options.seconds, options.tls) for _ in range(options.rounds)]
    _, is_well, shown = sorted(rounds)[len(rounds) // 2]
    print(shown, flush=True)
    return is_well


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--limit", type=int, default=256, help="limits.memory_mib")
    options.add_argument("--seconds", type=float, default=8, help="of each attack")
    options.add_argument("--rounds", type=int, default=1, help="of each attack")
    options.add_argument("--tls", action="store_true", help="receivers and senders speak TLS")
    options.add_argument("attacks", nargs="*", choices=[*ATTACKS, *ATTACKS_TLS, []])
    options = options.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    names = options.attacks or ([*OF_CONNECTIONS, *ATTACKS_TLS] if options.tls else ATTACKS)
    well = [median(name, options) for name in names]
    raise SystemExit(0 if all(well) else 1)


if __name__ == "__main__":
    main()
