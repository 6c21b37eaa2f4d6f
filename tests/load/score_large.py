#!/usr/bin/env python3
"""How fast `spanscore score` judges a large recording, and how much memory that takes.

    score_large.py PATH-TO-SPANSCORE [MEGABYTES]

Makes a recording of so many MB (2048) of OTLP/JSON requests, one a line, of traces with a model's
messages and tool calls, whose spans lie in two requests that are far from each other. Judges it on
one core and on all, and prints MB/s, the largest resident set, and the share of the cores' time that
was used: (user + system) / (wall x cores). Then what the machine itself allows: two runs on one core
each, at the same time, against one alone. Exits 1 where the answers differ, or where memory grows
with the input: it must stay below MEMORY_MB.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time

MEMORY_MB = 600
TRACES_BETWEEN = 2000
CONFIG = "evaluators: {tool_error: {}, tool_efficiency: {}, tool_loop: {}}\n"


def text(key, value):
    return {"key": key, "value": {"stringValue": value}}


def span(trace, number, parent, name, attributes):
    return {
        "traceId": f"{trace:032x}", "spanId": f"{trace % 2**32:08x}{number:08x}",
        "parentSpanId": f"{trace % 2**32:08x}{parent:08x}" if parent else "", "name": name,
        "startTimeUnixNano": str(10**18 + number * 1000), "endTimeUnixNano": str(10**18 + number * 1000 + 500),
        "attributes": attributes,
    }


def request(spans):
    service = [text("service.name", "shop")]
    return json.dumps({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]})


def halves(trace, words):
    """The two requests of a trace: its calls, and its root."""
    calls = []
    for number in range(2, 6):
        arguments = json.dumps({"query": words[(trace + number) % len(words)], "page": number})
        calls.append(span(trace, number, 1, "execute_tool search", [
            text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", "search"),
            text("gen_ai.tool.call.id", f"call-{number}"), text("gen_ai.tool.call.arguments", arguments),
            text("gen_ai.tool.call.result", words[(trace * 7 + number) % len(words)] * 8),
        ]))
    root = span(trace, 1, 0, "invoke_agent shop", [text("gen_ai.operation.name", "invoke_agent")])
    return request(calls), request([root])


def make(path, megabytes):
    random.seed(1)
    letters = "abcdefghijklmnopqrstuvwxyz "
    words = ["".join(random.choices(letters, k=60)) for _ in range(1000)]
    waiting, written, trace = [], 0, 0
    with open(path, "w") as out:
        while written < megabytes << 20:
            trace += 1
            first, second = halves(trace, words)
            waiting.append(second)
            lines = first + "\n" + (waiting.pop(0) + "\n" if len(waiting) > TRACES_BETWEEN else "")
            written += len(lines)
            out.write(lines)
        out.writelines(line + "\n" for line in waiting)
    return trace


def start(binary, config, recording, cores, out):
    """A run that may use these cores."""
    command = [binary, "score", "--config", config, "--format", "jsonl", "--fail-on", "never", "-o", out, recording]
    return subprocess.Popen(command, preexec_fn=lambda: os.sched_setaffinity(0, cores),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def score(binary, config, recording, cores, folder):
    out = os.path.join(folder, f"scores-{cores}")
    began = time.monotonic()
    process = start(binary, config, recording, set(range(cores)), out)
    _, status, usage = os.wait4(process.pid, 0)
    took = time.monotonic() - began
    used = (usage.ru_utime + usage.ru_stime) / (took * cores)
    digest = hashlib.sha256()
    with open(out, "rb") as scores:
        count = sum(1 for line in scores if digest.update(line.split(b'"time"')[0]) is None)
    os.remove(out)
    return status, took, used, usage.ru_maxrss / 1024, count, digest.hexdigest()


def ceiling(binary, config, recording, alone, folder):
    """How much faster two cores are than one with two runs that share nothing but the machine."""
    began = time.monotonic()
    outs = [os.path.join(folder, f"beside-{core}") for core in (0, 1)]
    runs = [start(binary, config, recording, {core}, out) for core, out in enumerate(outs)]
    for run in runs:
        run.wait()
    took = time.monotonic() - began
    for out in outs:
        os.remove(out)
    return 2 * alone / took


def main():
    binary = os.path.abspath(sys.argv[1])
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 2048
    with tempfile.TemporaryDirectory() as folder:
        recording, config = os.path.join(folder, "t.jsonl"), os.path.join(folder, "c.yaml")
        with open(config, "w") as out:
            out.write(CONFIG)
        traces, good, found = make(recording, megabytes), True, []
        size = os.path.getsize(recording) / 2**20
        print(f"{size:.0f} MB, {traces} traces")
        times = {}
        for cores in sorted({1, os.cpu_count()}):
            status, took, used, memory, count, digest = score(binary, config, recording, cores, folder)
            times[cores] = took
            found.append((count, digest))
            good &= status == 0 and count == 3 * traces and memory < MEMORY_MB
            print(f"{cores} cores: {took:.1f} s, {size / took:.0f} MB/s, {used:.0%} of their time, "
                  f"{memory:.0f} MB resident, {count} scores", flush=True)
        if os.cpu_count() > 1:
            print(f"{times[1] / times[os.cpu_count()]:.2f} times one core; two runs beside each other, on a core each, are "
                  f"{ceiling(binary, config, recording, times[1], folder):.2f} times one alone")
        good &= len(set(found)) == 1
    print("ok" if good else "FAIL")
    sys.exit(0 if good else 1)


main()
