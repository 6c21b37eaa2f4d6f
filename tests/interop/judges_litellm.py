#!/usr/bin/env python3
"""Has spanscore ask a judge through LiteLLM's proxy, an independent server of the protocols.

    python3 -m venv target/interop-litellm
    target/interop-litellm/bin/pip install 'litellm[proxy]'
    target/interop-litellm/bin/python tests/interop/judges_litellm.py PATH-TO-SPANSCORE

The proxy answers from its configuration, but for responses: of those its own answers always say that 36
tokens were read, so that it hands them on to a server of this script, which answers with all fields of
the reference and what it was sent. No model is asked. Prints a line for each check and ends
with `N passed, N failed`; exits 1 if any failed.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "agents"))
import json_server  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TRACE = os.path.join(ROOT, "examples", "traces", "refund_agent.json")
KEY = "sk-interop-0123456789abcdef0123456789abcdef"
REPLY = {
    "items": [{"id": 1, "cites": [], "reason": "The record shows it.", "verdict": "yes"}],
    "injection_suspected": False,
}
APIS = [("openai", "/v1"), ("openai_responses", "/v1"), ("anthropic", "")]
passed, failed = 0, 0


def check(what, good, found=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok  " if good else "FAIL", what, "" if good else found, flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def response(asked):
    """The response object of the reference, of a model that thinks before it answers."""
    read = len(json.dumps(asked)) // 4
    return {
        "id": "resp_01", "object": "response", "created_at": 1741476777, "status": "completed",
        "error": None, "incomplete_details": None, "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"), "metadata": {}, "model": "mock-1",
        "output": [
            {"id": "rs_01", "type": "reasoning", "summary": []},
            {"id": "msg_01", "type": "message", "status": "completed", "role": "assistant",
             "content": [{"type": "output_text", "text": json.dumps(REPLY), "annotations": []}]},
        ],
        "parallel_tool_calls": True, "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None}, "store": True, "temperature": 1.0,
        "text": asked.get("text", {"format": {"type": "text"}}), "tool_choice": "auto", "tools": [],
        "top_p": 1.0, "truncation": "disabled", "user": None,
        "usage": {"input_tokens": read, "input_tokens_details": {"cached_tokens": 0},
                  "output_tokens": 60, "output_tokens_details": {"reasoning_tokens": 20},
                  "total_tokens": read + 60},
    }


def proxy(folder, port, upstream):
    config = {
        "model_list": [{
            "model_name": "mock-1",
            "litellm_params": {
                "model": "openai/mock-1", "api_key": "none", "mock_response": json.dumps(REPLY),
            },
        }, {
            "model_name": "answers-1",
            "litellm_params": {
                "model": "openai/mock-1", "api_key": "none", "api_base": upstream,
            },
        }],
        "general_settings": {"master_key": KEY},
    }
    path = os.path.join(folder, "proxy.yaml")
    with open(path, "w") as file:
        json.dump(config, file)
    program = os.path.join(os.path.dirname(sys.executable), "litellm")
    log = open(os.path.join(folder, "proxy.log"), "w")
    command = [program, "--config", path, "--host", "127.0.0.1", "--port", str(port)]
    # What it says that it has read, whatever it was: far less would be a judge that cuts.
    environment = {**os.environ, "DEFAULT_MOCK_RESPONSE_PROMPT_TOKEN_COUNT": "900"}
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    for _ in range(240):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=1)
            return process
        except OSError:
            time.sleep(0.5)
    process.kill()
    sys.exit("the proxy does not start: " + open(log.name).read()[-2000:])


def score(program, folder, port, api, path, key):
    config = {
        "judges": {"proxy": {
            "api": api, "base_url": f"http://127.0.0.1:{port}{path}",
            "model": "answers-1" if api == "openai_responses" else "mock-1",
            "api_key_env": "INTEROP_KEY", "price": {"input": 1, "output": 1},
        }},
        "evaluators": {"task_completion/refund": {
            "judge": "proxy", "criteria": {"tasks": ["Refund the order"]},
        }},
    }
    file = os.path.join(folder, f"{api}.yaml")
    with open(file, "w") as out:
        json.dump(config, out)
    command = [program, "score", "--config", file, "--format", "jsonl", TRACE]
    environment = {**os.environ, "INTEROP_KEY": key}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    return json.loads(ended.stdout.splitlines()[0]), ended.stderr


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        requests = []

        def upstream(path, _headers, body):
            requests.append((path, body))
            return 200, response(body)

        process = proxy(folder, port, json_server.serve(upstream) + "/v1")
        try:
            for api, path in APIS:
                record, said = score(program, folder, port, api, path, KEY)
                check(f"{api}: the answer is read", record["score"] == 1.0, (record, said))
                judge = record["judge"] or {}
                check(f"{api}: its tokens were counted", judge.get("cost_usd", 0) > 0, record)
                record, said = score(program, folder, port, api, path, "sk-wrong")
                told = (record["outcome"], record["error_type"] or record["reason"])
                check(f"{api}: a wrong key is no score", record["score"] is None, record)
                check(f"{api}: and is not shown", "sk-wrong" not in str(record) + said, (told, said))
            handed_on = [body for path, body in requests if path.endswith("/responses")]
            check("openai_responses: it is handed on as such", handed_on, requests)
            asked = handed_on[0] if handed_on else {}
            shape = asked.get("text", {}).get("format", {})
            check("openai_responses: with the schema", shape.get("type") == "json_schema", asked)
            check("openai_responses: and its limit", asked.get("max_output_tokens") == 2048, asked)
        finally:
            process.terminate()
            process.wait()


main()
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
