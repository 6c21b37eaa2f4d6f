#!/usr/bin/env python3
"""Sends a trace and its scores to a real Phoenix, and reads the annotations back.

    phoenix.py PATH-TO-SPANSCORE PYTHON

PYTHON is an interpreter with `arize-phoenix` installed (a virtual environment of its own). Phoenix
keeps its data in a temporary folder. spanscore forwards the sample run to it, as it came, and writes
the scores as annotations. Exits 1 where one is missing or differs.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

CONFIG = """
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:0"}}, http: {{endpoint: "127.0.0.1:{http}"}}}}}}}}
traces: {{quiet_period: 1s}}
evaluators: {{tool_error: {{}}, tool_efficiency: {{}}}}
forward: {{otlp_http/phoenix: {{endpoint: "{phoenix}", signals: [traces]}}}}
exporters: {{console: {{}}, phoenix: {{endpoint: "{phoenix}", content: full}}}}
telemetry: {{metrics: {{endpoint: null}}, health: {{endpoint: null}}}}
"""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def wait_for(what, seconds, look):
    """What `look` gives, once it gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := look():
                return found
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(0.5)
    sys.exit(f"FAIL: {what} did not come within {seconds} s")


def annotations(phoenix):
    spans = get(f"{phoenix}/v1/projects/default/spans?limit=100")["data"]
    ids = "&".join(f"span_ids={span['context']['span_id']}" for span in spans)
    found = get(f"{phoenix}/v1/projects/default/span_annotations?{ids}&limit=100")["data"] if ids else []
    return sorted((it["name"], it["annotator_kind"], it["result"]["label"], it["result"]["score"]) for it in found)


def main():
    binary, python = os.path.abspath(sys.argv[1]), sys.argv[2]
    http, port, grpc = free_port(), free_port(), free_port()
    phoenix = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PHOENIX_WORKING_DIR=folder, PHOENIX_HOST="127.0.0.1", PHOENIX_PORT=str(port),
                           PHOENIX_GRPC_PORT=str(grpc), PHOENIX_TELEMETRY_ENABLED="false")
        config = os.path.join(folder, "c.yaml")
        with open(config, "w") as out:
            out.write(CONFIG.format(http=http, phoenix=phoenix))
        log = open(os.path.join(folder, "log"), "w+")
        server = subprocess.Popen([python, "-m", "phoenix.server.main", "serve"], env=environment, stdout=log, stderr=log)
        scores = None
        try:
            version = wait_for("Phoenix", 300, lambda: urllib.request.urlopen(f"{phoenix}/arize_phoenix_version").read().decode())
            print(f"Phoenix {version}")
            scores = subprocess.Popen([binary, "--config", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            send = [binary, "send", "--sample", "--endpoint", f"http://127.0.0.1:{http}"]
            wait_for("the collector", 30, lambda: subprocess.run(send, capture_output=True).returncode == 0)
            found = wait_for("two annotations", 60, lambda: (lambda it: it if len(it) >= 2 else None)(annotations(phoenix)))
            for one in found:
                print("  {} {} {} {}".format(*one))
            good = [it[:2] for it in found] == [("tool_efficiency", "CODE"), ("tool_error", "CODE")]
            good &= ("tool_error", "CODE", "fail", 0.8) in found
        finally:
            for process in filter(None, (scores, server)):
                process.terminate()
                process.wait()
            if sys.exc_info()[0]:
                log.seek(0)
                print(log.read()[-2000:])
    print("ok" if good else "FAIL")
    sys.exit(0 if good else 1)


main()
