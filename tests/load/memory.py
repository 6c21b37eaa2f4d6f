"""Peak memory under seven shapes of load, against `limits.memory_mib`, and a minute later.

    cargo build --release
    python3 tests/load/memory.py [--limit 128] [--seconds 20] [--rest 60] [shape ...]

For each shape: the resident set of a fresh process when idle, at its peak under load, and after the
rest; what the collector itself counted at most; what it answered, and which limits bit. It ends with
1 when a peak is above the limit plus a tenth and the idle size, or the rest above 1.5 times idle.
"""

import argparse
import gzip
import os
import socket
import threading
import time

from harness import (HEADERS, Collector, agent, compact, for_seconds, frame, http2, request, tool,
                     what_bit)


def trace(service="svc", resource=(), result="ok", calls=1, **attributes):
    own, root = os.urandom(16), os.urandom(8)
    tools = [tool(own, root, f"t{n}", result=result, number=n) for n in range(calls)]
    return request([agent(own, root, **attributes)] + tools, service, resource)


def streams(collector, seconds):
    """Two hundred connections of a hundred streams, each with the most of a frame of 1 MiB."""
    held = []

    def one():
        try:
            connection = http2(collector.grpc)
            held.append(connection)
            calls = b"".join(frame(1, 4, 1 + 2 * n, HEADERS) for n in range(100))
            connection.sendall(calls + frame(0, 0, 1, b"\0" * (1 << 20))[:900_000])
            return "held"
        except OSError as error:
            return type(error).__name__

    counts = {}
    for _ in range(200):
        done = one()
        counts[done] = counts.get(done, 0) + 1
    time.sleep(min(seconds, 10))
    for connection in held:
        connection.close()
    return counts


def bodies(collector, seconds):
    """Bodies of 1 KiB to 8 MiB, every other one compressed, on sixteen threads."""
    sizes = [1 << shift for shift in range(10, 24)]
    made = [trace(result="x" * size) for size in sizes]
    made = [(body, None) for body in made] + [(gzip.compress(body, 1), "gzip") for body in made]
    turn = iter(range(10**9))
    return for_seconds(seconds, lambda: collector.post(*made[next(turn) % len(made)]), 16)


def resources(collector, seconds):
    """A resource of 2 MB of its own in each trace."""
    large = "y" * 2_000_000
    def send():
        return collector.post(trace(resource=[("k" + os.urandom(4).hex(), large)]))
    return for_seconds(seconds, send, 4)


def sessions(collector, seconds):
    """A session with a result of 500 KB in each trace."""
    large = compact({"a": "x" * 500_000})
    def send():
        return collector.post(trace(result=large, **{"session.id": os.urandom(8).hex()}))
    return for_seconds(seconds, send, 4)


def series(collector, seconds):
    """Names of services of 20 KB, each another, and a scrape now and then."""
    def send():
        return collector.post(trace(service=os.urandom(8).hex() + "x" * 20_000))
    counts = for_seconds(seconds, send, 4)
    counts["scraped MB"] = round(sum(map(len, collector.metrics())) / 1e6, 1)
    return counts


def open_traces(collector, seconds):
    """Traces without an end, of thirty calls each."""
    def send():
        spans = []
        for _ in range(20):
            own, root = os.urandom(16), os.urandom(8)
            spans += [tool(own, root, f"t{n}", result="x" * 500, number=n) for n in range(30)]
        return collector.post(request(spans))
    return for_seconds(seconds, send, 4)


def remembered(collector, seconds):
    """Traces that end at once, of three calls each."""
    def send():
        spans = []
        for _ in range(50):
            own, root = os.urandom(16), os.urandom(8)
            spans.append(agent(own, root))
            spans += [tool(own, root, f"t{n}", result="x" * 3000, number=n) for n in range(3)]
        return collector.post(request(spans))
    return for_seconds(seconds, send, 4)


PLAIN = "evaluators: {tool_error: , tool_efficiency: }"
SESSIONS = "evaluators: {tool_error/s: {level: session}}\nsessions: {idle_timeout: 5s}"
SHAPES = {
    "streams": (streams, PLAIN), "bodies": (bodies, PLAIN), "resources": (resources, PLAIN),
    "sessions": (sessions, SESSIONS), "series": (series, PLAIN),
    "open_traces": (open_traces, PLAIN + "\ntraces: {idle_timeout: 10s}"),
    "remembered": (remembered, PLAIN + "\ntraces: {quiet_period: 200ms}"),
}


def most_counted(collector, stop, found):
    while not stop.wait(0.5):
        try:
            page = collector.metrics()
        except OSError:
            continue
        held = sum(value for key, value in page.items() if key.startswith("spanscore_memory_bytes"))
        found.append(held / 2**20)


def measure(name, limit, seconds, rest):
    load, config = SHAPES[name]
    collector = Collector(f"{config}\nlimits: {{memory_mib: {limit}}}\nexporters: {{prometheus: }}")
    time.sleep(2)
    idle, before = collector.status("VmRSS"), collector.metrics()
    collector.forget_peak()
    stop, counted = threading.Event(), []
    watch = threading.Thread(target=most_counted, args=(collector, stop, counted))
    watch.start()
    answers = load(collector, seconds)
    stop.set()
    watch.join()
    peak, bit = collector.status("VmHWM"), what_bit(before, collector.metrics())
    time.sleep(rest)
    after = collector.status("VmRSS")
    code, _ = collector.stop()
    allowed = 1.1 * limit + idle
    is_well = peak <= allowed and after <= 1.5 * idle
    print(f"{name:12} idle {idle:4.0f}  counted {max(counted, default=0):5.0f}  peak {peak:5.0f} "
          f"of {allowed:4.0f}  after {after:4.0f} ({after / idle:.1f} x idle)  exit {code}  "
          f"{'ok' if is_well else 'TOO MUCH'}\n{'':12} answers {answers}\n{'':12} {bit}", flush=True)
    return is_well


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--limit", type=int, default=128, help="limits.memory_mib")
    options.add_argument("--seconds", type=float, default=20, help="of load")
    options.add_argument("--rest", type=float, default=60, help="seconds after it")
    options.add_argument("shapes", nargs="*", choices=[*SHAPES, []])
    options = options.parse_args()
    socket.setdefaulttimeout(30)
    well = [measure(name, options.limit, options.seconds, options.rest)
            for name in options.shapes or SHAPES]
    raise SystemExit(0 if all(well) else 1)


if __name__ == "__main__":
    main()
