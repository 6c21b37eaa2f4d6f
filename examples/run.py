#!/usr/bin/env python3
"""Runs the example agents under `spanscore run`, and compares what it prints with what is kept.

    run.py PATH-TO-SPANSCORE [--write] [NAME ...]

Without names all agents run whose framework is installed: the Python ones in the interpreter that
runs this (`pip install -r tests/interop/requirements.txt`), CrewAI in `target/interop-crewai`, the Node ones after `npm ci` in their
folder, Spring AI after `mvn package` in its folder. With `--write` what is printed is kept in `examples/output`. Prints a line for each agent;
exits 1 if one prints something else, or if none ran.
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
AGENTS = os.path.join(HERE, "..", "tests", "interop", "agents")
REFUNDS = os.path.join(HERE, "refunds.yaml")
EVENTS = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
PYTHON = sys.executable
# CrewAI brings more than the others together, and stands apart.
CREWAI_PYTHON = os.path.join(HERE, "..", "target", "interop-crewai", "bin", "python")
SPRING_JAR = os.path.abspath(os.path.join(HERE, "..", "target", "interop-spring", "agent.jar"))
# name: the program, its config (none: the built-in one), its protocol, further environment
EXAMPLES = {
    "by_hand": ([PYTHON, os.path.join(HERE, "agents", "python_agent.py")], None, "http/protobuf", {}),
    "langchain": ([PYTHON, "langchain_agent.py"], REFUNDS, "grpc", {}),
    "langgraph": ([PYTHON, "langgraph_parallel_agent.py"], REFUNDS, "grpc", {}),
    "openai_agents": ([PYTHON, "openai_agent.py"], REFUNDS, "grpc", {}),
    "openai_events": ([PYTHON, "openai_events_agent.py"], REFUNDS, "http/protobuf", EVENTS),
    "pydantic_ai": ([PYTHON, "pydantic_agent.py"], REFUNDS, "http/protobuf", {}),
    "anthropic": ([PYTHON, "anthropic_agent.py"], REFUNDS, "http/protobuf", {}),
    "crewai": ([CREWAI_PYTHON, "crewai_agent.py"], REFUNDS, "http/protobuf", {}),
    "vercel_ai": (["node", "vercel/agent.mjs"], REFUNDS, "http/protobuf", {}),
    "langchain_js": (["node", "langchainjs/agent.mjs"], REFUNDS, "http/protobuf", {}),
    "spring_ai": (["java", "-jar", SPRING_JAR], REFUNDS, "http/protobuf", {}),
    "go_by_hand": (["go", "run", "-C", "go/", "."], REFUNDS, "grpc", {}),
}
MISSING = ("ModuleNotFoundError", "ERR_MODULE_NOT_FOUND", "No such file or directory", "not found",
           "Unable to access jarfile")


def stable(text):
    """Without what differs from run to run: ids of traces, and the columns that follow them."""
    text = re.sub(r"\b[0-9a-f]{8}\b(?=  )", "TRACE-ID", text)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def run(binary, name):
    program, config, protocol, extra = EXAMPLES[name]
    is_ours = lambda part: part.endswith((".py", ".mjs", "/")) and not os.path.isabs(part)
    place = lambda part: os.path.join(AGENTS, part) if is_ours(part) else part
    command = [binary, "run", "--fail-on", "never", *(["--config", config] if config else []), "--",
               "env", f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol}", *map(place, program)]
    environment = dict(os.environ, OTEL_SERVICE_NAME=name, COLUMNS="200", **extra)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)


def main():
    arguments = [it for it in sys.argv[1:] if it != "--write"]
    binary, names = os.path.abspath(arguments[0]), arguments[1:] or list(EXAMPLES)
    ran, failed = 0, 0
    for name in names:
        path = os.path.join(HERE, "output", f"{name}.txt")
        ended = run(binary, name)
        if ended.returncode and any(word in ended.stderr for word in MISSING):
            print("skip", name, "is not installed here")
            continue
        ran, printed = ran + 1, stable(ended.stdout)
        if "--write" in sys.argv and ended.returncode == 0:
            with open(path, "w") as out:
                out.write(printed)
        with open(path) as kept:
            good = ended.returncode == 0 and printed == kept.read()
        failed += not good
        print("ok  " if good else "FAIL", name, "" if good else ended.stderr[-2000:] + printed, flush=True)
    print(f"{ran} ran, {failed} failed")
    sys.exit(1 if failed or not ran else 0)


main()
