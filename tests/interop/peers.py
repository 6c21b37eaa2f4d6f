"""Cases for `tests/it/parity_peers.rs`: trajectories made at random, the scores that other systems
give them, and the settings that `docs/evaluators.md` names for the same.

    for peer in google-adk pydantic-evals ragas azure-ai-evaluation agentevals deepeval; do
        python3 -m venv /tmp/$peer && /tmp/$peer/bin/pip install "$peer"
        /tmp/$peer/bin/python -P tests/interop/peers.py "$peer"
    done | zstd -19 > tests/fixtures/parity/peers.jsonl.zst

`google-adk` wants its extra `eval`, ragas 0.4 a `langchain-community` before 0.4; without `-P` a
script beside this one hides agentevals. One line a case: the calls or the answer, kind and settings here, the
score there, and under `documented` the difference that the page names, where one is to be expected.
"""
import asyncio
import importlib.metadata
import itertools
import json
import os
import random
import sys
from datetime import datetime, timedelta, timezone

NAMES = ["search", "book", "pay"]
VALUES = {
    "city": ["Bonn", "Oslo", "bonn", ""],
    "nights": [1, 2, 2.5, 0],
    "seat": [{"row": 3, "window": True}, {"row": 4, "window": True}, {"row": 3}],
    "tags": [["a", "b"], ["b", "a"], ["a"], []],
    "note": [None, "none", "zwei Nächte", "it's \"late\""],
}


def arguments(rng):
    keys = rng.sample(sorted(VALUES), rng.choice([0, 1, 1, 2, 2, 3]))
    return {key: rng.choice(VALUES[key]) for key in keys}


def call(rng):
    return {"name": rng.choice(NAMES), "arguments": arguments(rng)}


def changed(rng, calls):
    """Calls as somebody might have expected them: some of these, others, in another order."""
    calls = [dict(call) for call in calls]
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        what = rng.choice(["drop", "add", "swap", "again", "value", "key", "name"])
        at = rng.randrange(len(calls)) if calls else None
        if what == "add" or at is None:
            calls.insert(rng.randint(0, len(calls)), call(rng))
        elif what == "drop":
            del calls[at]
        elif what == "swap":
            rng.shuffle(calls)
        elif what == "again":
            calls.insert(rng.randint(0, len(calls)), dict(calls[at]))
        elif what == "name":
            calls[at]["name"] = rng.choice(NAMES)
        else:
            values = dict(calls[at]["arguments"])
            key = rng.choice(sorted(VALUES))
            if what == "key" and key in values:
                del values[key]
            else:
                values[key] = rng.choice(VALUES[key])
            calls[at]["arguments"] = values
    return calls


def pairs(seed, count, least=0):
    """Actual and expected calls; at least so many of the expected."""
    rng = random.Random(seed)
    while count:
        actual = [call(rng) for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 4, 5]))]
        expected = changed(rng, actual)
        if len(expected) >= least:
            count -= 1
            yield rng, actual, expected


def names(calls):
    return [call["name"] for call in calls]


def case(actual, kind, settings, score, documented=None):
    made = {"calls": actual, "kind": kind, "settings": settings, "score": float(score)}
    return made | ({"documented": documented} if documented else {})


def trajectory(mode, expected, **settings):
    return {"match_mode": mode, "criteria": {"tool_calls": expected}} | settings


IGNORE = {"argument_matcher": {"mode": "ignore"}}


def google_adk():
    from google.adk.evaluation import eval_case, eval_metrics, trajectory_evaluator
    from google.genai import types

    def invocation(calls):
        uses = [types.FunctionCall(name=it["name"], args=it["arguments"]) for it in calls]
        data = eval_case.IntermediateData(tool_uses=uses)
        return eval_case.Invocation(
            user_content=types.Content(parts=[types.Part(text="?")]), intermediate_data=data
        )

    modes = {"EXACT": "exact", "IN_ORDER": "in_order_match", "ANY_ORDER": "any_order_match"}
    for _, actual, expected in pairs("adk", 400):
        for (theirs, ours), ignore in itertools.product(modes.items(), [False, True]):
            criterion = eval_metrics.ToolTrajectoryCriterion(
                threshold=1.0, match_type=theirs, ignore_args=ignore
            )
            metric = eval_metrics.EvalMetric(
                metric_name="tool_trajectory_avg_score", criterion=criterion
            )
            evaluator = trajectory_evaluator.TrajectoryEvaluator(eval_metric=metric)
            found = evaluator.evaluate_invocations([invocation(actual)], [invocation(expected)])
            settings = trajectory(ours, expected, **(IGNORE if ignore else {}))
            yield case(actual, "tool_trajectory", settings, found.overall_score)
    yield from answers()


ROOTS = """connect relate operate happi hope adjust form electric commun vietnam predic sens analog differ
    radical digit rapid final cease control fly tie die agre plaster motor fall hiss fizz fail file
    trouble siz hop tan sky news outing proceed archaeolog geolog ration gener probat rate roll beautiful
    enjoy spy refund book total cancel ship deliver 2fa a17""".split()
ENDINGS = """ s es ed ing ly ies ied y ions ion ional ation ations ator ators ative ity ities ility ally al alli
    ization izer ize ized izing ous ously ousness ive iveness ivity ful fully fulness ness less ment
    ments ement ent ently ence ance ancy encies able ible ably eed er ers est ism ist icate ical ics ll
    lling e bli logi eli iti ou""".split()
FOREIGN = """Größe GRÖSSE grosse ﬁne café café naïve İstanbul ΣΟΦΟΣ σοφος заказ Заказа возврат
    東京タワー 東京 タワー 환불했습니다 환불 ราคา ราคาแพง ที่นี่ ລາຄາ តម្លៃ ဈေး हिन्दी किताब السعر ½ ² x² Ⅷ
    don't e-mail snake_case 3.14 $5 ฿100 l’eau 😀""".split()


def answers():
    """Words by the same roots, and texts of such words and of words of other scripts."""
    from google.adk.evaluation import final_response_match_v1

    rng = random.Random("answers")

    def word():
        return rng.choice(ROOTS) + rng.choice(ENDINGS)

    def text():
        words = [word() if rng.random() < 0.7 else rng.choice(FOREIGN) for _ in range(rng.randrange(12))]
        return "".join(it + rng.choice([" ", " ", ", ", ". ", "\n", "-", ""]) for it in words)

    def forms():
        root = rng.choice(ROOTS)
        return [root + rng.choice(ENDINGS) for _ in range(2)]

    def texts():
        expected = text()
        kept = [it for it in expected.split() if rng.random() < 0.7]
        rng.shuffle(kept)
        return expected, " ".join(kept) + " " + text()

    for make, count in [(forms, 1500), (texts, 500)]:
        for expected, actual in (make() for _ in range(count)):
            found = final_response_match_v1._calculate_rouge_1_scores(actual, expected)
            settings = {"criteria": {"expected_output": expected}}
            yield case([], "word_overlap", settings, found.fmeasure) | {"final_output": actual}


def pydantic_evals():
    from pydantic_evals import evaluators
    from pydantic_evals.otel.span_tree import SpanNode, SpanTree

    start = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def score(evaluator, calls):
        def node(at, call):
            attributes = {
                "gen_ai.tool.name": call["name"],
                "gen_ai.tool.call.arguments": json.dumps(call["arguments"]),
            }
            when = start + timedelta(seconds=at)
            status = "error" if call.get("status") == "error" else "unset"
            return SpanNode(
                name="execute_tool " + call["name"], trace_id=1, span_id=at + 1,
                parent_span_id=None, start_timestamp=when, end_timestamp=when,
                attributes=attributes, status=status,
            )

        tree = SpanTree()
        tree.add_spans([node(at, call) for at, call in enumerate(calls)])
        context = evaluators.EvaluatorContext(
            name=None, inputs=None, metadata=None, expected_output=None, output=None,
            duration=1.0, _span_tree=tree, attributes={}, metrics={},
        )
        return evaluator.evaluate(context).value

    orders = {"exact": "exact", "in_order": "in_order_f1", "any_order": "any_order_f1"}
    for rng, actual, expected in pairs("pydantic", 250):
        for call in actual:
            if rng.random() < 0.2:
                call["status"] = "error"
        expected = [{key: it[key] for key in ("name", "arguments")} for it in expected]
        for failed in [False, True]:
            exclude = {} if failed else {"exclude_failed": True}
            for theirs, ours in orders.items():
                them = evaluators.TrajectoryMatch(names(expected), theirs, failed)
                settings = trajectory(ours, names(expected), **IGNORE, **exclude)
                yield case(actual, "tool_trajectory", settings, score(them, actual))
            for extra in [False, True]:
                them = evaluators.ToolCorrectness(names(expected), extra, failed)
                mode = "superset" if extra else "unordered"
                settings = trajectory(mode, names(expected), **IGNORE, **exclude)
                yield case(actual, "tool_trajectory", settings, score(them, actual))
            wanted = rng.choice(expected or [{"name": "pay", "arguments": {}}])
            settings = {
                "tool_name": wanted["name"],
                "expected_arguments": wanted["arguments"],
                "match_mode": rng.choice(["subset", "exact"]),
                "occurrence": rng.choice(["first", "last", 0, 1]),
            }
            them = evaluators.ArgumentCorrectness(**settings, include_failed=failed)
            yield case(actual, "argument_correctness", settings | exclude, score(them, actual))
        limit = rng.randint(0, 4)
        them = evaluators.MaxToolCalls(limit)
        yield case(actual, "tool_budget", {"max_calls": limit}, score(them, actual))


def ragas():
    from ragas.messages import AIMessage, ToolCall
    from ragas.metrics.collections import ToolCallAccuracy, ToolCallF1

    def calls(of):
        return [ToolCall(name=it["name"], args=it["arguments"]) for it in of]

    def score(metric, actual, expected):
        messages = [AIMessage(content="", tool_calls=calls([it])) for it in actual]
        asked = metric.ascore(user_input=messages, reference_tool_calls=calls(expected))
        return asyncio.run(asked).value

    for _, actual, expected in pairs("ragas", 400):
        criteria = {"criteria": {"tool_calls": expected}}
        for strict in [True, False]:
            found = score(ToolCallAccuracy(strict_order=strict), actual, expected)
            settings = {"match_mode": "call_accuracy", "strict_order": strict, "compat": "ragas"}
            yield case(actual, "tool_correctness", settings | criteria, found)
        found = score(ToolCallF1(), actual, expected)
        yield case(actual, "tool_correctness", {"match_mode": "call_f1"} | criteria, found)


def azure_ai_evaluation():
    from azure.ai.evaluation._evaluators import _task_navigation_efficiency as efficiency

    def message(at, call):
        part = {"type": "tool_call", "tool_call_id": f"c{at}"} | call
        return {"role": "assistant", "content": [part]}

    counts = {"precision": "precision_score", "recall": "recall_score", "any_order_f1": "f1_score"}
    texts = ["1", "2.5", "None", "[]"]
    for rng, actual, expected in pairs("azure", 300, least=1):
        # Its ground truth has the parameters of a tool once.
        by_name = {it["name"]: it["arguments"] for it in expected}
        reads_as_text = rng.random() < 0.2
        if reads_as_text:
            by_name[expected[0]["name"]] = {"nights": rng.choice(texts)}
        same = [{"name": it["name"], "arguments": by_name[it["name"]]} for it in expected]
        response = [message(at, it) for at, it in enumerate(actual)]
        for with_arguments in [False, True]:
            truth = (names(same), by_name) if with_arguments else names(same)
            more = {} if with_arguments else IGNORE
            documented = "compares as texts" if with_arguments and reads_as_text else None
            for mode in ["exact_match", "in_order_match", "any_order_match"]:
                them = efficiency._TaskNavigationEfficiencyEvaluator(matching_mode=mode)
                found = them(response=response, ground_truth=truth)
                score = found["task_navigation_efficiency_score"]
                settings = trajectory(mode, same, **more)
                yield case(actual, "tool_trajectory", settings, score, documented)
            for ours, theirs in counts.items():
                score = found["task_navigation_efficiency_properties"][theirs]
                settings = trajectory(ours, same, **more)
                yield case(actual, "tool_trajectory", settings, score, documented)


def within(one, other):
    return all(key in other and other[key] == value for key, value in one.items())


def can_pair(wanted, made, fits):
    """True if each call can have one of the others that fits."""
    return not wanted or any(
        it["name"] == wanted[0]["name"]
        and fits(wanted[0]["arguments"], it["arguments"])
        and can_pair(wanted[1:], made[:at] + made[at + 1:], fits)
        for at, it in enumerate(made)
    )


def can_match(mode, loose, actual, expected):
    """True if calls that agentevals does not match can be paired by its own rule."""
    if mode == "unordered":
        same = len(actual) == len(expected)
        return same and can_pair(expected, actual, lambda one, other: one == other)
    if mode == "strict":
        return False
    wanted, made = (expected, actual) if mode == "superset" else (actual, expected)
    fits = within if loose == "superset" else lambda one, other: within(other, one)
    return can_pair(wanted, made, fits)


def agentevals():
    from agentevals.trajectory.match import create_trajectory_match_evaluator

    def steps(calls, cuts):
        bounds = [0, *(cut for cut in cuts if cut < len(calls)), len(calls)]
        return [calls[a:b] for a, b in itertools.pairwise(bounds) if a < b]

    def messages(steps):
        def part(call):
            function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
            return {"id": "", "type": "function", "function": function}

        return [
            {"role": "assistant", "content": "", "tool_calls": [part(call) for call in step]}
            for step in steps
        ]

    swapped = {"superset": "subset", "subset": "superset", "exact": "exact", "ignore": "ignore"}
    direction = {
        "strict": swapped,
        "superset": swapped,
        "subset": {mode: mode for mode in swapped},
        "unordered": swapped | {"superset": "exact", "subset": "exact"},
    }
    for rng, actual, expected in pairs("agentevals", 300):
        cuts = [sorted(rng.sample(range(1, 6), rng.randint(1, 5))) for _ in range(2)]
        made, wanted = steps(actual, cuts[0]), steps(expected, cuts[1])
        grouped = [it | {"group": at} for at, step in enumerate(made, 1) for it in step]
        for mode, by_mode in direction.items():
            for theirs, ours in by_mode.items():
                evaluator = create_trajectory_match_evaluator(
                    trajectory_match_mode=mode, tool_args_match_mode=theirs
                )
                found = evaluator(outputs=messages(made), reference_outputs=messages(wanted))
                settings = trajectory(mode, expected, argument_matcher={"mode": ours})
                if mode == "strict" and wanted:
                    settings["criteria"] = {"steps": wanted}
                looser = theirs in ("superset", "subset") and not found["score"]
                is_greedy = looser and can_match(mode, theirs, actual, expected)
                documented = "takes the first that matches" if is_greedy else None
                yield case(grouped, "tool_trajectory", settings, found["score"], documented)


def deepeval():
    os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"
    from deepeval.metrics import ToolCorrectnessMetric
    from deepeval.models import DeepEvalBaseLLM
    from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

    class Unasked(DeepEvalBaseLLM):
        def load_model(self):
            return self

        def generate(self, *_, **__):
            raise AssertionError("no case asks a model")

        a_generate = generate

        def get_model_name(self):
            return "unasked"

    def tools(calls):
        return [
            ToolCall(name=it["name"], input_parameters=it["arguments"], output=it.get("result"))
            for it in calls
        ]

    params = {"input_parameters": ToolCallParams.INPUT_PARAMETERS, "output": ToolCallParams.OUTPUT}
    results = ["ok", "42", 42, {"id": 7}, "[1]"]
    for rng, actual, expected in pairs("deepeval", 300):
        actual = [it | {"result": rng.choice(results)} for it in actual]
        expected = [it | {"result": rng.choice(results)} for it in expected]
        test = LLMTestCase(
            input="?", actual_output="!", tools_called=tools(actual),
            expected_tools=tools(expected),
        )
        twice = any(one == other for one, other in itertools.combinations(actual, 2))
        results_of = itertools.product(*([it["result"] for it in of] for of in (actual, expected)))
        is_text = any(one != other and str(one) == str(other) for one, other in results_of)
        for order, strict in itertools.product([False, True], [False, True]):
            documented = "takes equal calls once" if twice and not order else None
            for looked in [[], ["input_parameters"], ["output"], list(params)]:
                metric = ToolCorrectnessMetric(
                    model=Unasked(), evaluation_params=[params[it] for it in looked],
                    should_consider_ordering=order, strict_mode=strict, async_mode=False,
                )
                score = metric.measure(test, _show_indicator=False)
                mode = "best_match_in_order" if order else "best_match"
                settings = trajectory(mode, expected, strict_mode=strict)
                if looked:
                    settings["evaluation_params"] = looked
                reads = "reads texts of values" if is_text and "output" in looked else None
                settled = documented or reads
                yield case(actual, "tool_correctness", settings, score, settled)
        metric = ToolCorrectnessMetric(
            model=Unasked(), should_exact_match=True, async_mode=False,
            evaluation_params=[ToolCallParams.INPUT_PARAMETERS],
        )
        score = metric.measure(test, _show_indicator=False)
        yield case(actual, "tool_trajectory", trajectory("strict", expected), score)


def main():
    peer = sys.argv[1]
    version = importlib.metadata.version(peer)
    for line in globals()[peer.replace("-", "_")]():
        print(json.dumps({"peer": peer, "version": version} | line, ensure_ascii=False))


if __name__ == "__main__":
    main()
