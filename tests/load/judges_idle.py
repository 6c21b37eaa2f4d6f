#!/usr/bin/env python3
"""What judges cost that are configured and never due: processor time for a request, with and without them.

    cargo build --release
    python3 tests/load/judges_idle.py [--requests 1500] [--rounds 3]

Two collectors take the same requests in turns: one with two tool evaluators, one with a judged evaluator as well, which
`run_if` never lets ask. Printed is the processor time of each for a request of twenty traces, by round.
"""

import argparse
import os
import time

from harness import Collector, agent, request, tool

CONFIG = """
evaluators:
  tool_error/default: {}
  tool_efficiency/default: {}
%s
exporters: {prometheus: }
"""
JUDGED = """  helpfulness/default:
    judge: local
    run_if: 'scores["tool_error/default"] < 0.0'
judges:
  local: {api: openai, base_url: "http://127.0.0.1:9/v1", model: m, context_tokens: 32768}
"""


def body():
    spans = []
    for _ in range(20):
        trace, root = os.urandom(16), os.urandom(8)
        spans += [agent(trace, root)] + [tool(trace, root, f"t{n}", number=n) for n in range(6)]
    return request(spans, "ordinary")


def seconds(collector):
    with open(f"/proc/{collector.process.pid}/stat") as file:
        user, system = file.read().rsplit(") ", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    collectors = {"without": Collector(CONFIG % ""), "with": Collector(CONFIG % JUDGED)}
    for number in range(options.rounds):
        cost = {}
        for name, collector in collectors.items():
            before = seconds(collector)
            for _ in range(options.requests):
                assert collector.post(body()) == 200
            time.sleep(4)
            cost[name] = (seconds(collector) - before) / options.requests * 1e6
        ratio = cost["with"] / cost["without"]
        print(f"round {number + 1}: {cost['without']:.0f} us without, {cost['with']:.0f} us with: {ratio:.2f}", flush=True)
    for collector in collectors.values():
        collector.stop()


main()
