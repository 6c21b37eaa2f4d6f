"""Functions of a trajectory. Each gives a score from 0 to 1 and a sentence; `None` for the score
says that it cannot be judged."""
import json
from dataclasses import dataclass, field
from typing import Callable


@dataclass
class Evaluator:
    function: Callable
    # Change it whenever scores may change: it is a part of every evaluation's identity.
    version: str
    # What the function looks at; nothing else is sent.
    needs: list[str]
    settings_schema: dict = field(default_factory=dict)


def text(content):
    """The text of a recorded content; `None` where nothing was recorded."""
    return content.get("value", "") if content else None


def answer_length(trajectory, settings):
    """The answer has no more words than it should."""
    answer = text(trajectory.get("finalOutput"))
    if answer is None:
        return None, "the answer is not recorded"
    words, most = len(answer.split()), settings.get("words_max", 50)
    return min(1.0, most / max(words, 1)), f"{words} words, at most {most} wanted"


def repeated_arguments(trajectory, settings):
    """No call is made twice with the same arguments."""
    calls = trajectory.get("toolCalls", [])
    if not calls:
        return None, "no tool was called"
    seen, repeated = set(), []
    for call in calls:
        key = (call["name"], text(call.get("arguments")))
        if key in seen:
            repeated.append(call["name"])
        seen.add(key)
    score = 1 - len(repeated) / len(calls)
    return score, "repeated: " + ", ".join(repeated) if repeated else "no call is repeated"


EVALUATORS = {
    "answer_length": Evaluator(
        answer_length,
        version="1",
        needs=["final_output"],
        settings_schema={
            "type": "object",
            "properties": {"words_max": {"type": "integer", "minimum": 1}},
            "additionalProperties": False,
        },
    ),
    "repeated_arguments": Evaluator(
        repeated_arguments, version="1", needs=["tool_calls", "arguments"]
    ),
}
