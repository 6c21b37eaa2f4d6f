#!/usr/bin/env python3
"""agentevals' own samples, judged by their own eval sets, with one command each and no key.

    git clone https://github.com/agentevals-dev/agentevals /tmp/agentevals
    agentevals_samples.py PATH-TO-SPANSCORE /tmp/agentevals [PATH-TO-AGENTEVALS]

Each score must be the one that its README shows; with a third argument, the program of its package `agentevals-cli`, also the one
that this gives on the same files. Exits 1 where one differs.
"""

import json
import os
import pathlib
import subprocess
import sys

# Eval set, trace, and the score of `tool_trajectory_avg_score`.
EXAMPLES = [
    ("eval_set_helm.json", "helm.json", 1.0),
    ("eval_set_helm.json", "k8s.json", 0.0),
    ("evalset_helm_3_2026-02-23.json", "helm_3.json", 1.0),
    ("evalset_k8s_2026-02-20.json", "k8s.json", 1.0),
]


def ours(binary, samples, eval_set, trace):
    command = [binary, "score", "--golden", samples / eval_set, "--format", "jsonl", samples / trace]
    done = subprocess.run(command, capture_output=True, text=True)
    (record,) = map(json.loads, done.stdout.splitlines())
    return record["score"], done.returncode


def theirs(program, samples, eval_set, trace):
    command = [program, "run", samples / trace, "--eval-set", samples / eval_set, "-m", "tool_trajectory_avg_score", "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    start = done.stdout.find("{")
    if start < 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr[-1000:]}")
    (result,) = [metric for trace in json.loads(done.stdout[start:])["traces"] for metric in trace["metrics"]]
    return result["score"]


def main():
    binary, samples = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]) / "samples"
    failed = 0
    for eval_set, trace, expected in EXAMPLES:
        score, code = ours(binary, samples, eval_set, trace)
        good = score == expected and code == (0 if expected == 1.0 else 2)
        other = ""
        if len(sys.argv) > 3:
            found = theirs(sys.argv[3], samples, eval_set, trace)
            good &= found == score
            other = f", agentevals {found:.1f}"
        failed += not good
        print("ok  " if good else "FAIL", f"{trace} by {eval_set}: {score:.1f}, exit code {code}{other}")
    print(f"{len(EXAMPLES) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
