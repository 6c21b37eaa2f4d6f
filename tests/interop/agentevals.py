"""Evaluators published for agentevals, unchanged, judging a recorded trace through spanscore.

    git clone https://github.com/agentevals-dev/evaluators /tmp/evaluators
    python3 -m venv /tmp/agentevals && /tmp/agentevals/bin/pip install agentevals-evaluator-sdk
    python3 tests/interop/agentevals.py /tmp/evaluators /tmp/agentevals/bin/python

Prints the scores. Each must be what agentevals' own way of running the file gives: the same input
on its standard input, without spanscore.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "examples/traces/refund_agent.json"
# Each evaluator with settings of its own and what they must come to on this trace.
CASES = [
    ("contains", {"substring": "refund"}),
    ("contains", {"substring": "REFUND", "case_insensitive": True}),
    ("contains", {"substring": "weather"}),
    ("contains", {}),
    ("regex_match", {"pattern": r"\d+\.\d{2} EUR"}),
    ("regex_match", {"pattern": "^no$"}),
    ("tool_coverage", {"min_tool_calls": 5}),
    ("tool_coverage", {"min_tool_calls": 6}),
    (
        "tool_sequence_match",
        {
            "expected_tool_names": [
                "find_order", "check_policy", "issue_refund", "issue_refund", "find_order",
            ]
        },
    ),
    ("tool_sequence_match", {"expected_tool_names": ["find_order"], "require_order": False}),
    ("tool_sequence_match", {}),
]
# Hands on what it was given to the evaluator, and keeps both sides.
TEE = """
import subprocess, sys
given = sys.stdin.read()
open(sys.argv[1] + ".in", "w").write(given)
done = subprocess.run(sys.argv[2:], input=given, capture_output=True, text=True)
open(sys.argv[1] + ".out", "w").write(done.stdout)
sys.stdout.write(done.stdout)
sys.stderr.write(done.stderr)
sys.exit(done.returncode)
"""


def score(config, folder):
    """The records of all evaluations."""
    file = folder / "spanscore.yaml"
    file.write_text(json.dumps(config))
    program = ROOT / "target/debug/spanscore"
    command = [program, "score", "--config", file, "--format", "jsonl", TRACE]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = (line for line in done.stdout.splitlines() if line.startswith("{"))
    records = [json.loads(line) for line in lines]
    assert records, done.stderr
    return {record["evaluator"]: record for record in records if "evaluator" in record}


def theirs(output):
    """Their result in our words: agentevals derives the status from the threshold, 0.5."""
    result = json.loads(output)
    status = result.get("status") or ("PASSED" if result["score"] >= 0.5 else "FAILED")
    return status, result["score"]


def ours(record):
    if record["outcome"] == "not_evaluable":
        return "NOT_EVALUATED", 0.0
    assert record["outcome"] == "scored", record
    return ("PASSED" if record["label"] == "pass" else "FAILED"), record["score"]


def main(evaluators, python):
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "tee.py").write_text(TEE)
    entries = {}
    for number, (name, config) in enumerate(CASES):
        file = pathlib.Path(evaluators) / "evaluators" / name / f"{name}.py"
        kept = str(folder / str(number))
        command = [sys.executable, str(folder / "tee.py"), kept, python, str(file)]
        entries[f"agentevals/{name}_{number}"] = {"command": command, "config": config, "spares": 0}
    records = score({"evaluators": entries}, folder)
    failed = 0
    for number, (name, config) in enumerate(CASES):
        record = records[f"agentevals/{name}_{number}"]
        expected = theirs((folder / f"{number}.out").read_text())
        is_same = ours(record) == expected
        failed += not is_same
        verdict = "same" if is_same else f"DIFFERENT, theirs {expected}"
        status, value = ours(record)
        print(f"{name:20} {json.dumps(config):60.60} {status:13} {value:.2f} {verdict}")
    print(f"{len(CASES) - failed} of {len(CASES)} as agentevals' own output says")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
