#!/usr/bin/env python3
"""Has metrics of DeepEval and evaluators of spanscore judge the same runs by the same verdicts.

    python3 -m venv target/interop-deepeval
    target/interop-deepeval/bin/pip install deepeval
    target/interop-deepeval/bin/python tests/interop/judges_deepeval.py PATH-TO-SPANSCORE

One scripted judge answers both, each in its form: no model is asked. Prints a line for each pair of
scores and ends with `N passed, N failed`; exits 1 if a score differs.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "agents"))
from deepeval import metrics  # noqa: E402
from deepeval.models.base_model import DeepEvalBaseLLM  # noqa: E402
from deepeval.test_case import LLMTestCase, SingleTurnParams  # noqa: E402
import json_server  # noqa: E402

QUESTION = "What is the return period?"
SCRIPT = {"verdicts": [], "score": 0}
# yes and no; DeepEval's "borderline" (spanscore's "unclear") is counted by it as supported.
VERDICTS = [["yes", "yes"], ["yes", "no"], ["no", "no"], ["no", "yes", "yes"],
            ["yes", "no", "yes", "no", "yes"], ["no", "no", "no", "yes"]]
passed, failed = 0, 0


def check(what, good, found=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok  " if good else "FAIL", what, "" if good else found, flush=True)


class Scripted(DeepEvalBaseLLM):
    """A model that fills each form from the script."""

    def load_model(self):
        return self

    def get_model_name(self):
        return "scripted"

    def generate(self, prompt, schema=None):
        words = [f"Fact {number}." for number in range(len(SCRIPT["verdicts"]))]
        verdicts = [
            {"verdict": verdict, "reason": "so it is", "statement": word, "expected_output": word}
            for verdict, word in zip(SCRIPT["verdicts"], words)
        ]
        filled = {
            "verdicts": verdicts, "truths": words, "claims": words, "statements": words,
            "opinions": words, "steps": ["Compare."], "reason": "so it is",
            "score": SCRIPT["score"],
        }
        if schema is None:
            return json.dumps(filled)
        return schema(**{key: filled[key] for key in schema.model_fields if key in filled})

    async def a_generate(self, prompt, schema=None):
        return self.generate(prompt, schema)


def judge(_path, _headers, asked):
    """The same for spanscore."""
    user = asked["messages"][-1]["content"]
    count = re.search(r"one entry for each of the (\d+)", user)
    items = [
        {"id": number, "cites": [1], "reason": "so it is", "verdict": verdict}
        for number, verdict in enumerate(SCRIPT["verdicts"], 1)
    ]
    reply = {"items": items} if count else {"reason": "so it is", "score": SCRIPT["score"]}
    message = {"role": "assistant", "content": json.dumps({**reply, "injection_suspected": False})}
    return 200, {
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": len(json.dumps(asked)) // 4, "completion_tokens": 9},
    }


def trace(folder, answer, contexts):
    def span(number, parent, kind, name, attributes):
        pairs = {"openinference.span.kind": kind, **attributes}
        return {
            "traceId": "0b" * 16, "spanId": f"{number:016x}", "parentSpanId": parent, "name": name,
            "kind": 1, "startTimeUnixNano": str(1_700_000_000_000_000_000 + number),
            "endTimeUnixNano": str(1_700_000_001_000_000_000 - number),
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in pairs.items()],
        }
    spans = [
        span(1, "", "AGENT", "agent", {"input.value": QUESTION, "output.value": answer}),
        span(2, f"{1:016x}", "TOOL", "search", {
            "tool.name": "search", "input.value": '{"q": "returns"}',
            "output.value": json.dumps({"documents": contexts})}),
    ]
    request = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}
    path = os.path.join(folder, "trace.json")
    with open(path, "w") as file:
        json.dump(request, file)
    return path


def score(program, folder, address, evaluator, answer, contexts):
    config = {
        "judges": {"small": {"api": "openai", "base_url": address, "model": "scripted"}},
        "evaluators": {kind: {"judge": "small", **own} for kind, own in evaluator.items()},
    }
    file = os.path.join(folder, "config.json")
    with open(file, "w") as out:
        json.dump(config, out)
    command = [program, "score", "--config", file, "--format", "jsonl", "--fail-on", "never",
               trace(folder, answer, contexts)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if not ended.stdout:
        sys.exit(f"{' '.join(command)}: {ended.stderr}")
    return json.loads(ended.stdout.splitlines()[0])["score"]


def pairs(model, count):
    """Metrics of DeepEval, each with the evaluator that stands for it."""
    facts = [f"Fact {number}." for number in range(count)]
    of = {"model": model, "async_mode": False, "include_reason": False}
    yield ("FaithfulnessMetric", metrics.FaithfulnessMetric(**of), {"faithfulness": {}})
    yield ("PromptAlignmentMetric", metrics.PromptAlignmentMetric(prompt_instructions=facts, **of),
           {"rubric": {"criteria": {"statements": [{"text": fact} for fact in facts]}}})
    yield ("ContextualPrecisionMetric", metrics.ContextualPrecisionMetric(**of),
           {"retrieval": {"criteria": {"reference": " ".join(facts)}}})
    yield ("ContextualRecallMetric", metrics.ContextualRecallMetric(**of),
           {"retrieval": {"mode": "recall", "criteria": {"reference": " ".join(facts)}}})


def main(program):
    address = json_server.serve(judge) + "/v1"
    model = Scripted()
    with tempfile.TemporaryDirectory() as folder:
        for verdicts in VERDICTS:
            SCRIPT["verdicts"] = verdicts
            facts = [f"Fact {number}." for number in range(len(verdicts))]
            case = LLMTestCase(
                input=QUESTION, actual_output=" ".join(facts), expected_output=" ".join(facts),
                retrieval_context=[f"Context {number}" for number in range(len(verdicts))],
            )
            for name, metric, evaluator in pairs(model, len(verdicts)):
                theirs = metric.measure(case, _show_indicator=False)
                ours = score(
                    program, folder, address, evaluator, case.actual_output, case.retrieval_context)
                good = ours is not None and abs(theirs - ours) < 1e-9
                check(f"{name} {' '.join(verdicts)}: {theirs:.4f}", good, (theirs, ours))
        for number in (0, 3, 10):
            SCRIPT["score"] = number
            metric = metrics.GEval(
                name="Tone", evaluation_steps=["Compare."], model=model, async_mode=False,
                evaluation_params=[SingleTurnParams.ACTUAL_OUTPUT])
            theirs = metric.measure(case, _show_indicator=False)
            steps = {"rubric": {"criteria": {"evaluation_steps": ["Compare."]}}}
            ours = score(program, folder, address, steps, case.actual_output, [])
            check(f"GEval {number}: {theirs:.4f}", abs(theirs - ours) < 1e-9, (theirs, ours))


main(sys.argv[1])
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
