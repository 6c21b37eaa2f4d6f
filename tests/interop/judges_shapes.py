#!/usr/bin/env python3
"""Has spanscore ask judges that answer as vLLM and as Ollama do, by what their servers document.

    python3 tests/interop/judges_shapes.py PATH-TO-SPANSCORE

Both servers are of this script; no model is asked. Each answers with all fields that the real one
sends, has its words for a missing model, a wrong key and a request that is too long, and Ollama's
cuts what does not fit without a word. Prints a line for each check and ends with `N passed, N
failed`; exits 1 if any failed.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "agents"))
import json_server  # noqa: E402

KEY = "sk-shapes-0123456789abcdef"
REPLY = json.dumps({
    "items": [{"id": 1, "cites": [1], "reason": "The record shows it.", "verdict": "yes"}],
    "injection_suspected": False,
})
passed, failed = 0, 0


def check(what, good, found=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok  " if good else "FAIL", what, "" if good else found, flush=True)


def tokens(asked):
    return sum(len(message["content"]) for message in asked["messages"]) // 4


def vllm(asked, key):
    """vLLM's OpenAI-compatible server, with a parser for thoughts (`think` has none)."""
    def error(status, kind, message, param=None):
        return status, {"error": {"message": message, "type": kind, "param": param, "code": status}}
    if key != f"Bearer {KEY}":
        return 401, {"error": "Unauthorized"}
    if asked["model"] not in ("judge", "think"):
        name = asked["model"]
        return error(404, "NotFoundError", f"The model `{name}` does not exist.", "model")
    limit, wanted = 32768, asked.get("max_tokens", asked.get("max_completion_tokens", 0))
    if tokens(asked) + wanted > limit:
        return error(400, "BadRequestError", (
            f"This model's maximum context length is {limit} tokens. However, you requested "
            f"{tokens(asked) + wanted} tokens ({tokens(asked)} in the messages, {wanted} in the "
            "completion). Please reduce the length of the messages or completion."))
    text = REPLY if asked["model"] == "judge" else f"<think>yes {{or no}}?</think>\n\n{REPLY}"
    message = {
        "role": "assistant", "content": text, "refusal": None, "annotations": None, "audio": None,
        "function_call": None, "tool_calls": [], "reasoning_content": None,
    }
    choice = {
        "index": 0, "message": message, "logprobs": None, "finish_reason": "stop",
        "stop_reason": None, "token_ids": None,
    }
    return 200, {
        "id": "chatcmpl-0f3c", "object": "chat.completion", "created": int(time.time()),
        "model": asked["model"], "choices": [choice], "service_tier": None,
        "system_fingerprint": None,
        "usage": {
            "prompt_tokens": tokens(asked), "total_tokens": tokens(asked) + 60,
            "completion_tokens": 60, "prompt_tokens_details": None,
        },
        "prompt_logprobs": None, "prompt_token_ids": None, "kv_transfer_params": None,
    }


def ollama(asked, _):
    """Ollama's compatible endpoint: no key, a context of 4,096 tokens, the rest is cut."""
    if asked["model"] != "qwen3":
        name = asked["model"]
        error = {"message": f'model "{name}" not found, try pulling it first', "type": "api_error",
                 "param": None, "code": None}
        return 404, {"error": error}
    read = min(tokens(asked), 4096)
    message = {"role": "assistant", "content": REPLY, "reasoning": "The refund is in the record."}
    return 200, {
        "id": "chatcmpl-881", "object": "chat.completion", "created": int(time.time()),
        "model": asked["model"], "system_fingerprint": "fp_ollama",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": read, "completion_tokens": 60, "total_tokens": read + 60},
    }


def serve(answer):
    """A server that answers so; returns its address and what it was asked."""
    asked = []

    def answered(path, headers, body):
        asked.append((path, body))
        return answer(body, headers.get("authorization"))

    return json_server.serve(answered) + "/v1", asked


def trace(folder, result):
    """A recording of an agent that refunds an order."""
    def span(number, parent, kind, name, attributes):
        pairs = {"openinference.span.kind": kind, **attributes}
        return {
            "traceId": "0a" * 16, "spanId": f"{number:016x}", "parentSpanId": parent, "name": name,
            "kind": 1, "startTimeUnixNano": str(1_700_000_000_000_000_000 + number),
            "endTimeUnixNano": str(1_700_000_001_000_000_000 - number),
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in pairs.items()],
        }
    spans = [
        span(1, "", "AGENT", "agent", {
            "input.value": "Refund order 17 please", "output.value": "Order 17 is refunded"}),
        span(2, f"{1:016x}", "TOOL", "issue_refund", {
            "tool.name": "issue_refund", "input.value": '{"order": 17}', "output.value": result}),
    ]
    request = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}
    path = os.path.join(folder, "trace.json")
    with open(path, "w") as file:
        json.dump(request, file)
    return path


def score(program, folder, address, model, result="refunded", key=None):
    judge = {"api": "openai", "base_url": address, "model": model, "price": {"input": 1, "output": 1}}
    if key:
        judge["api_key_env"] = "SHAPES_KEY"
    task = {"judge": "own", "criteria": {"tasks": ["Refund order 17"]}}
    config = {"judges": {"own": judge}, "evaluators": {"task_completion/refund": task}}
    file = os.path.join(folder, "config.json")
    with open(file, "w") as out:
        json.dump(config, out)
    command = [program, "score", "--config", file, "--format", "jsonl", trace(folder, result)]
    environment = {**os.environ, "SHAPES_KEY": key or ""}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    record = json.loads(ended.stdout.splitlines()[0])
    return record, record["error_type"] or record["reason"]


def main(program):
    words = " ".join(f"the parcel number {n} was found in hall {n % 7}." for n in range(900))
    with tempfile.TemporaryDirectory() as folder:
        address, asked = serve(vllm)
        record, _ = score(program, folder, address, "judge", key=KEY)
        check("vllm: the answer is read", record["score"] == 1.0, record)
        shape = asked[0][1].get("response_format", {}).get("type")
        check("vllm: with a schema, in one request", (shape, len(asked)) == ("json_schema", 1), asked)
        check("vllm: its tokens are counted", record["judge"]["cost_usd"] > 0, record)
        record, _ = score(program, folder, address, "think", key=KEY)
        check("vllm: thoughts before the answer are passed over", record["score"] == 1.0, record)
        _, told = score(program, folder, address, "other", key=KEY)
        check("vllm: a missing model is told", told == "judge_model_not_found", told)
        _, told = score(program, folder, address, "judge", key="sk-wrong")
        check("vllm: so is a wrong key", told == "judge_unauthorized", told)
        del asked[:]
        record, told = score(program, folder, address, "judge", result=words * 4, key=KEY)
        check("vllm: a long record is shortened until it fits", record["score"] == 1.0, record)

        address, asked = serve(ollama)
        record, _ = score(program, folder, address, "qwen3")
        check("ollama: the answer is read, without a key", record["score"] == 1.0, record)
        check("ollama: at its path", asked[0][0] == "/v1/chat/completions", asked[0][0])
        _, told = score(program, folder, address, "other")
        check("ollama: a missing model is told", told == "judge_model_not_found", told)
        record, told = score(program, folder, address, "qwen3", result=words)
        check("ollama: what it cut is no verdict", told == "judge_context_truncated", record)


main(sys.argv[1])
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
