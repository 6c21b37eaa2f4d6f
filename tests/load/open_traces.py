"""What open traces take: 100,000 of twelve spans each, none of which ends.

    cargo build --release
    python3 tests/load/open_traces.py [--traces 100000]

For evaluators that need more and more of a trace: the bytes of a trace that they read (names,
arguments, results), what the collector counts as held, and its resident set, for each trace.
"""

import argparse
import os
import time

from harness import Collector, request, tool

CALLS = 12
ARGUMENTS = '{"order_id": "A-%04d", "reason": "the lamp arrived broken, please refund", "notify": true}'
RESULT = '{"order_id": "A-%04d", "status": "done", "reference": "R-%04d", "amount": 129.5, "currency": "EUR"}'
NAME = "lookup_order"
RECORDED = {
    "names": ("tool_call_count: {criteria: {tool_calls_count: {lookup_order: ['>', 0]}}}", 0, 0),
    "arguments": ("tool_call_args: {criteria: {tool_calls: [{name: lookup_order, args: {}}]}}", 1, 0),
    "all": ("tool_call_args: {criteria: {tool_calls: [{name: lookup_order, args: {}}]}}, "
            "tool_call_output: {criteria: {tool_outputs: [{name: lookup_order, output: {}}]}}", 1, 1),
}
TRACE = b"\xab" * 16


def template():
    spans = [tool(TRACE, b"\xcd" * 8, NAME, ARGUMENTS % n, RESULT % (n, n), n) for n in range(CALLS)]
    read = (CALLS * len(NAME), sum(len(ARGUMENTS % n) for n in range(CALLS)),
            sum(len(RESULT % (n, n)) for n in range(CALLS)))
    return spans, read


def measure(name, count):
    evaluators, arguments, results = RECORDED[name]
    config = (f"evaluators: {{{evaluators}}}\ntraces: {{idle_timeout: 1h, age_max: 2h}}\n"
              "limits: {memory_mib: 4096, open_traces_max: 1000000}\nexporters: {prometheus: }")
    collector = Collector(config)
    time.sleep(1)
    idle = collector.status("VmRSS")
    spans, (names, of_arguments, of_results) = template()
    joined = b"".join(spans)
    for first in range(0, count, 100):
        ids = [os.urandom(16) for _ in range(min(100, count - first))]
        answer = collector.post(request_of(joined, spans, ids))
        assert answer == 200, answer
    time.sleep(3)
    page = collector.metrics()
    opened = page["spanscore_assemble_open_traces"]
    assert opened == count, opened
    needed = names + arguments * of_arguments + results * of_results
    held = page["spanscore_assemble_held_bytes"] / count
    resident = (collector.status("VmRSS") - idle) * 2**20 / count
    print(f"{name}: read {needed} bytes a trace, held {held:.0f}, resident {resident:.0f}; "
          f"1.3 times what is read and 400: {1.3 * needed + 400:.0f}", flush=True)
    collector.process.kill()


def request_of(joined, spans, ids):
    return request([span.replace(TRACE, own) for own in ids for span in spans])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--traces", type=int, default=100_000)
    count = parser.parse_args().traces
    for name in RECORDED:
        measure(name, count)


main()
