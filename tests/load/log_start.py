"""A start with a log of 1 GiB that nobody has judged yet: when it listens, and how fast it is back.

    cargo build --release
    python3 tests/load/log_start.py [--mib 1024]

A collector with `durability: none` is filled with traces that stay open, and killed. It is started
again: how long until `/readyz` says yes, what requests take that are sent while the log is read, how
long that takes, and its resident set. It ends with 1 where it did not listen within a second, a
request was not taken, or not every trace that was sent is judged or open in the end.
"""

import argparse
import http.client
import os
import pathlib
import shutil
import signal
import tempfile
import time

from harness import Collector, percentile, request, tool

CONFIG = """data_dir: {folder}
durability: none
log: {{size_max_mib: 8192, waiting_mib: 256}}
traces: {{idle_timeout: 1h, age_max: 2h}}
evaluators:
  tool_call_count: {{criteria: {{tool_calls_count: {{track_parcel: ['>', 0]}}}}}}
limits: {{memory_mib: 1024, open_traces_max: 4000000}}
exporters: {{prometheus: }}"""
TRACES = 20
CALLS = 12
RESULT = "The parcel left Hull on 12 March and weighs 3 kg. " * 30
REQUESTS_BETWEEN_LOOKS = 200


def template():
    ids = [bytes([0xAB]) * 14 + n.to_bytes(2, "big") for n in range(TRACES)]
    spans = []
    for own in ids:
        spans += [tool(own, b"\xcd" * 8, "track_parcel", result=RESULT, number=n) for n in range(CALLS)]
    body = request(spans)
    return body.split(b"\xab" * 14)


def fill(collector, folder, size):
    """Sends until the log is so large; how many traces."""
    parts, sent = template(), 0
    connection = http.client.HTTPConnection("127.0.0.1", collector.http, timeout=60)
    while True:
        for _ in range(REQUESTS_BETWEEN_LOOKS):
            # One trace each from the same fourteen bytes and the number that follows them.
            body = os.urandom(14).join(parts)
            while not post(connection, body):
                time.sleep(0.05)
            sent += TRACES
        if log_bytes(folder) >= size:
            return sent
        # Of what was judged for want of memory nothing would be needed any more.
        are_open = lambda page: page["spanscore_assemble_open_traces"] == sent
        assert wait_for(collector, are_open, seconds=60), "traces were judged"


def post(connection, body):
    connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
    answer = connection.getresponse()
    answer.read()
    return answer.status == 200


def log_bytes(folder):
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def wait_for(collector, is_there, interval=0.05, seconds=300):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_there(collector.metrics()):
            return True
        time.sleep(interval)
    return False


def spans_of(page):
    words = ("assemble_judged_spans", "assemble_open_spans")
    return sum(value for key, value in page.items() if any(word in key for word in words))


def restart(folder):
    """Starts on what was left; figures of the start, and of requests beside it."""
    began = time.monotonic()
    collector = Collector(CONFIG.format(folder=folder))
    listening = time.monotonic() - began
    parts, latencies, taken = template(), [], 0
    connection = http.client.HTTPConnection("127.0.0.1", collector.http, timeout=60)
    while collector.metrics().get("spanscore_log_restoring"):
        at = time.monotonic()
        taken += post(connection, os.urandom(14).join(parts))
        latencies.append(1000 * (time.monotonic() - at))
        time.sleep(0.05)
    return collector, listening, time.monotonic() - began, latencies, taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024)
    size = parser.parse_args().mib << 20
    folder = tempfile.mkdtemp(prefix="spanscore-log-")
    try:
        collector = Collector(CONFIG.format(folder=folder))
        sent = fill(collector, folder, size)
        time.sleep(1)
        collector.process.send_signal(signal.SIGKILL)
        collector.process.wait()
        left = log_bytes(folder) / 2**20
        collector, listening, back, latencies, taken = restart(folder)
        expected = (sent + taken * TRACES) * CALLS
        is_whole = wait_for(collector, lambda page: spans_of(page) >= expected, seconds=60)
        peak = collector.status("VmHWM")
        seen = spans_of(collector.metrics())
        code, last = collector.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"log {left:.0f} MiB, {sent} traces of {CALLS} spans")
    print(f"listening after {listening:.2f} s; all is back after {back:.1f} s: {left / back:.0f} MiB/s, "
          f"{sent * CALLS / back / 1000:.0f} k spans/s")
    print(f"{taken} of {len(latencies)} requests taken meanwhile, p50 {percentile(latencies, 0.5):.1f}, "
          f"p99 {percentile(latencies, 0.99):.1f} ms; peak {peak:.0f} MiB")
    print(f"spans judged or open {seen:.0f} of {expected}; exit {code}: {last}")
    raise SystemExit(0 if listening < 1 and taken == len(latencies) and is_whole else 1)


if __name__ == "__main__":
    main()
