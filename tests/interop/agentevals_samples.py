#!/usr/bin/env python3
"""agentevals' own samples, judged by their own eval sets, with one command each and no key.

    git clone https://github.com/agentevals-dev/agentevals /tmp/agentevals
    agentevals_samples.py PATH-TO-SPANSCORE /tmp/agentevals [PATH-TO-AGENTEVALS]

Scores of calls must be those that its README shows, scores of words those that the package `rouge_score` gives for the two answers,
as the metric takes it. With a third argument, the program of its package `agentevals-cli`, they must also be those that this gives on
the same files. Exits 1 where one differs.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

METRICS = ("tool_trajectory_avg_score", "response_match_score")
# Eval set, trace, and the scores of these metrics.
EXAMPLES = [
    ("eval_set_helm.json", "helm.json", (1.0, 82 / 101)),
    ("eval_set_helm.json", "k8s.json", (0.0, 1 / 7)),
    ("evalset_helm_3_2026-02-23.json", "helm_3.json", (1.0, 1.0)),
    ("evalset_k8s_2026-02-20.json", "k8s.json", (1.0, 1.0)),
]
# Lowest score of either metric that passes.
THRESHOLD = 0.8


def ours(binary, samples, eval_set, trace):
    command = [binary, "score", "--golden", samples / eval_set, "--format", "jsonl", samples / trace]
    done = subprocess.run(command, capture_output=True, text=True)
    return tuple(json.loads(line)["score"] for line in done.stdout.splitlines()), done.returncode


def theirs(program, samples, eval_set, trace):
    metrics = [word for metric in METRICS for word in ("-m", metric)]
    command = [program, "run", samples / trace, "--eval-set", samples / eval_set, *metrics, "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    start = done.stdout.find("{")
    if start < 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr[-1000:]}")
    results = [metric for trace in json.loads(done.stdout[start:])["traces"] for metric in trace["metrics"]]
    scores = {result["metric_name"]: result["score"] for result in results}
    return tuple(scores[metric] for metric in METRICS)


def near(some, others):
    return len(some) == len(others) and all(abs(one - other) < 1e-9 for one, other in zip(some, others))


def shown(scores):
    return ", ".join(f"{score:.3f}" for score in scores)


def main():
    binary, samples = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]) / "samples"
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(shutil.copytree(samples, pathlib.Path(folder) / "samples"))
        (copy / "test_config.json").write_text(json.dumps({"criteria": dict.fromkeys(METRICS, THRESHOLD)}))
        for eval_set, trace, expected in EXAMPLES:
            scores, code = ours(binary, copy, eval_set, trace)
            good = near(scores, expected) and code == (0 if min(expected) >= THRESHOLD else 2)
            other = ""
            if len(sys.argv) > 3:
                found = theirs(sys.argv[3], copy, eval_set, trace)
                good &= near(found, scores)
                other = f"; agentevals {shown(found)}"
            failed += not good
            print("ok  " if good else "FAIL", f"{trace} by {eval_set}: {shown(scores)}, exit code {code}{other}")
    print(f"{len(EXAMPLES) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
