#!/usr/bin/env python3
"""Types every command of README.md and docs/, in a folder that holds what the pages talk of.

    commands.py PATH-TO-SPANSCORE [PAGE ...]

The pages' own files (`spanscore.yaml`, `good1.jsonl`, `agent.py`) are made first, a collector runs on free ports with some runs in
its store, and a judge answers by a script. A command must end with one of the codes of its page; one that serves or follows is
stopped after some seconds. What cannot run here is listed with what is missing: at most one block in eight. `docs/ten_minutes.md`
has a script of its own. Exits 1 if a command fails.
"""

import glob
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "ten_minutes"))
from run import Shell, free_port  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BLOCK = re.compile(r"```sh\n(.*?)```", re.S)
# Blocks that cannot run here, by their first words: what is missing.
MISSING = {
    "cargo install --locked --path .": "minutes: builds the program; docs/ten_minutes.md installs the wheel, examples/run.py runs the third line",
    "cargo test": "this script is a part of it",
    "claude mcp add": "the assistant's own program",
    "helm install": "a cluster",
    "examples/fleet/run.sh": "a build with Kafka, and minutes: Maven fetches the broker",
}
# Commands without an end: their end is asked for.
ENDLESS = re.compile(r"^spanscore( gateway)?( --(config|set) \S+)?$|^spanscore tail|^spanscore run --open|^curl (-fsS )?-N")
# Commands with another code beside 0: a shut gate, and a judge that says yes to everything.
OTHER_CODES = {"score": 2, "run": 2, "calibrate": 1}
SECONDS = 3
# Words of the pages for what their reader has, and what it is here.
HERE = {
    " FILE": " examples/traces/refund_agent.json", " 5b8aa5a2": " TRACE", " 5b8efff7": " TRACE", "/traces/5b8aa5a2": "/traces/TRACE", '"5b8aa5a2"': '"TRACE"',
    "data_dir/dead_letters/otlp_http-backend.jsonl": "good1.jsonl", "http://backend:4318": "http://127.0.0.1:HTTP",
    "https://localhost:4318": "https://localhost:TLS", "127.0.0.1:8890": "127.0.0.1:PAGES",
    "/var/lib/spanscore/scores.db": "data/scores.db", "--store scores.db": "--store data/scores.db",
    "/var/lib/spanscore/dashboard": "data/dashboard",
}
CONFIG = """\
data_dir: data
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:0"}}, http: {{endpoint: "127.0.0.1:{http}"}}}}}}}}
telemetry: {{metrics: {{endpoint: "127.0.0.1:0"}}, health: {{endpoint: "127.0.0.1:0"}}}}
dashboard: {{endpoint: "127.0.0.1:{pages}"}}
judges:
  small: {{api: openai, base_url: "http://127.0.0.1:{judge}/v1", model: scripted, price: {{input: 1, output: 1}}}}
  large: {{api: openai, base_url: "http://127.0.0.1:{judge}/v1", model: scripted, price: {{input: 1, output: 1}}}}
evaluators:
  tool_error:
  task_completion/shop: {{judge: small, sample: 0.0, criteria: {{tasks: ["the order is paid back"]}}}}
  task_completion/shop_2: {{judge: small, sample: 0.0, criteria: {{tasks: ["the whole order is paid back"]}}}}
"""
TLS = """\
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{tls}", tls: {{cert_file: certs/server.pem, key_file: certs/server.key}}}}}}}}}}
telemetry: {{metrics: {{endpoint: "127.0.0.1:0"}}, health: {{endpoint: null}}}}
store: false
"""
GATEWAY = """\
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:0"}}}}
telemetry: {metrics: {endpoint: "127.0.0.1:0"}, health: {endpoint: "127.0.0.1:0"}}
"""


class Judge(http.server.BaseHTTPRequestHandler):
    """Says yes to whatever it is asked."""

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["content-length"])).decode()
        count = int(re.search(r"one entry for each of the (\d+)", asked).group(1))
        items = [{"id": at + 1, "cites": [1], "reason": "so it is", "verdict": "yes"} for at in range(count)]
        message = {"role": "assistant", "content": json.dumps({"items": items, "injection_suspected": False})}
        body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}],
                           "usage": {"prompt_tokens": 1, "completion_tokens": 1}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def agent(folder):
    """The example agent, with a case's name on its root span."""
    with open(os.path.join(ROOT, "examples", "agents", "python_agent.py")) as source:
        text = source.read()
    text, found = re.subn(r"(?m)^( *)(with tracer\.start_as_current_span\(\"invoke_agent.*as (\w+):)$",
                          r'\1\2\n\1    \3.set_attribute("case", "shipped")', text)
    assert found == 1, "the example agent has another root span"
    with open(os.path.join(folder, "agent.py"), "w") as out:
        out.write(text)


def prepared(folder, ports):
    for name in ("examples", "config", "deploy", "tests"):
        os.symlink(os.path.join(os.path.abspath(ROOT), name), os.path.join(folder, name))
    agent(folder)
    with open(os.path.join(folder, "spanscore.yaml"), "w") as config:
        config.write(CONFIG.format(**ports))
    with open(os.path.join(folder, "tls.yaml"), "w") as config:
        config.write(TLS.format(**ports))
    with open(os.path.join(folder, "gateway.yaml"), "w") as config:
        config.write(GATEWAY)
    calibration = os.path.join(ROOT, "tests", "fixtures", "judges", "calibration.jsonl")
    with open(calibration) as lines, open(os.path.join(folder, "labelled.jsonl"), "w") as out:
        out.writelines(line for line in lines if '"task_completion"' in line)
    shutil.copytree(os.path.join(ROOT, "examples", "traces"), os.path.join(folder, "runs"))
    shutil.copy(os.path.join(ROOT, "examples", "traces", "refund_agent.json"), os.path.join(folder, "traces.jsonl"))


SETUP = [
    "for it in good good1 good2 new; do spanscore run --fail-on never --record $it.jsonl -- python agent.py > /dev/null; done",
    "for it in main branch; do spanscore score --format jsonl --fail-on never good1.jsonl > $it.jsonl; done",
    "cp main.jsonl scores.jsonl; cp spanscore.yaml eval.yaml; cp spanscore.yaml new.yaml; cp good1.jsonl runs.jsonl; mkdir recorded",
    "cp examples/traces/refund_agent.json request.json",
    "spanscore certs trial 2> /dev/null; mkdir certs; cp trial/* certs/",
    "spanscore --config spanscore.yaml > collector.log 2>&1 &",
    "spanscore --config tls.yaml > tls.log 2>&1 &",
]


def ready(shell, ports):
    """Sends a run to the store; returns the digits of its trace."""
    for command in SETUP:
        shell.type(command)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        shell.type(f"spanscore send --fresh-ids --endpoint http://127.0.0.1:{ports['http']} examples/traces/*.json")
        found = re.search(r"\b[0-9a-f]{8}\b", shell.type("spanscore scores -c spanscore.yaml --where label=fail"))
        if found:
            return found.group(0)
        time.sleep(1)
    sys.exit(shell.type("cat collector.log") + "the collector never judged a run")


def commands(block):
    """The commands of a block: its lines, those that end in a backslash with the next."""
    for line in re.sub(r"\\\n\s*", "", block).splitlines():
        line = re.sub(r"\s+# .*", "", line).strip()
        if line:
            yield line


def run(shell, line, places):
    for word, here in HERE.items():
        line = line.replace(word, here)
    for name, value in places.items():
        line = line.replace(name, value)
    # An answer that refuses is a failure.
    line = re.sub(r"^curl ", "curl -fsS ", line)
    # The collector that runs shows those of `certs`.
    line = re.sub(r"^spanscore certs certs", "spanscore certs other", line)
    line = re.sub(r"^spanscore init\b", "spanscore init --force", line) if "-o" in line else line
    line = line.replace("spanscore init", "spanscore init --output first.yaml") if line == "spanscore init" else line
    is_endless = ENDLESS.match(line)
    is_collector = is_endless and line.startswith("spanscore") and not re.search(r"\b(tail|gateway|run)\b", line)
    if is_collector:
        # Beside the collector that runs: on free ports, with a store of its own.
        line += " " + " ".join(f"--set {key}=127.0.0.1:0" for key in (
            "receivers.otlp.protocols.grpc.endpoint", "receivers.otlp.protocols.http.endpoint", "telemetry.metrics.endpoint",
            "telemetry.health.endpoint", "dashboard.endpoint")) + " --set data_dir=other"
    if is_endless:
        line = f"timeout {SECONDS} {line}"
    # What reads standard input would read the commands that follow.
    printed = shell.type(f"{{ {line}\n}} < /dev/null\necho \"code $?\"")
    code = int(re.findall(r"code (\d+)$", printed.strip())[-1])
    words = [*line.split(), "", ""]
    allowed = {0, 124 if is_endless else OTHER_CODES.get(words[1], 0)}
    return code in allowed, printed


def main():
    binary, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    pages = ["README.md", *sorted(glob.glob("docs/**/*.md", root_dir=ROOT, recursive=True))]
    ports = {name: free_port() for name in ("http", "pages", "tls")}
    judge = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=judge.serve_forever, daemon=True).start()
    ports["judge"] = judge.server_port
    total, marked, failed = 0, [], 0
    with tempfile.TemporaryDirectory() as folder:
        prepared(folder, ports)
        tools = os.path.join(folder, "bin")
        os.mkdir(tools)
        os.symlink(binary, os.path.join(tools, "spanscore"))
        unset = ("OTEL_", "SPANSCORE_", "GITHUB_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
        environment["PATH"] = os.pathsep.join([tools, os.path.dirname(sys.executable), environment["PATH"]])
        shell = Shell(folder, environment)
        trace = ready(shell, ports)
        places = {"TRACE": trace, **{name.upper(): str(port) for name, port in ports.items()}}
        for page in pages:
            with open(os.path.join(ROOT, page)) as text:
                blocks = BLOCK.findall(text.read())
            for block in blocks:
                total += 1
                missing = next((why for start, why in MISSING.items() if block.startswith(start)), None)
                if page.endswith("ten_minutes.md") or (wanted and page not in wanted):
                    continue
                if missing:
                    marked.append(f"{page}: {block.splitlines()[0]}: {missing}")
                    continue
                for line in commands(block):
                    shell.type(f"export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{ports['http']}")
                    good, printed = run(shell, line, places)
                    failed += not good
                    print("ok  " if good else "FAIL", f"{page}: {line}", "" if good else f"\n{printed[-2000:]}", flush=True)
        shell.end()
    for line in marked:
        print("not run:", line)
    print(f"{total} blocks, {len(marked)} not run here, {failed} commands failed")
    sys.exit(1 if failed or len(marked) * 8 > total else 0)


if __name__ == "__main__":
    main()
