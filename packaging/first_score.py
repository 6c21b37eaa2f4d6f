#!/usr/bin/env python3
"""From nothing to the first score of an own agent, by each way of installing that has been built.

    python3 packaging/first_score.py [--rounds 5] [--python PYTHON] [--ways pip uvx ...]

PYTHON is the agent's own interpreter, with the OpenTelemetry SDK and its OTLP exporter. A way begins with a package in
`dist` and an empty folder, and ends with the first score of `examples/agents/python_agent.py`. Printed are medians of the
processor time and of the time on the clock, to install and in all, and the load while they were measured.
"""

import argparse
import glob
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "dist"
AGENT = ROOT / "examples" / "agents" / "python_agent.py"


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, **options)


def wheel(package, folder):
    """`pip install` into a new virtual environment."""
    run(sys.executable, "-m", "venv", folder / "venv")
    run(folder / "venv" / "bin" / "pip", "install", "--no-index", "--disable-pip-version-check", package)
    return folder / "venv" / "bin" / "spanscore"


def uvx(package, folder):
    """`uvx --from`: installs into uv's cache when it is first called."""
    environment = dict(os.environ, UV_CACHE_DIR=str(folder / "cache"), UV_OFFLINE="1")
    run("uvx", "--from", package, "spanscore", "--version", env=environment)
    program = folder / "spanscore"
    program.write_text(f"#!/bin/sh\nUV_CACHE_DIR={folder}/cache UV_OFFLINE=1 exec uvx --from {package} spanscore \"$@\"\n")
    program.chmod(0o755)
    return program


def cargo(_, folder):
    """`cargo install --locked`, all crates downloaded, none built."""
    run("cargo", "install", "--locked", "--path", ROOT, "--root", folder, "--target-dir", folder / "target")
    return folder / "bin" / "spanscore"


def npm(package, folder):
    """`npm install` into a new project."""
    run("npm", "init", "-y", cwd=folder)
    run("npm", "install", "--no-audit", "--no-fund", package, cwd=folder)
    return folder / "node_modules" / ".bin" / "spanscore"


def deb(package, folder):
    """`dpkg --extract`: what `dpkg -i` unpacks."""
    run("dpkg", "--extract", package, folder)
    return folder / "usr" / "bin" / "spanscore"


def copied(package, folder):
    """A copy."""
    run("install", "-m", "755", package, folder / "spanscore")
    return folder / "spanscore"


def image(package, folder):
    """The image's root, entered by a namespace."""
    blob = lambda descriptor: pathlib.Path(package) / "blobs" / descriptor["digest"].replace(":", "/")
    manifest = json.loads(blob(json.loads((pathlib.Path(package) / "index.json").read_text())["manifests"][0]).read_text())
    for layer in manifest["layers"]:
        with tarfile.open(blob(layer)) as tar:
            tar.extractall(folder, filter="fully_trusted")
    return ["unshare", "--user", "--map-root-user", "--root", folder, "/usr/bin/spanscore"]


def score_by_run(binary, python):
    """`spanscore run`: the agent under it."""
    ended = subprocess.run([binary, "run", "--wait", "0.2", "--", python, AGENT], capture_output=True, text=True)
    return "1 of 2 tool calls succeeded" in ended.stdout


def score_by_server(command, python):
    """A collector, to which the agent sends: what a container is."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = [f"receivers.otlp.protocols.http.endpoint=127.0.0.1:{port}", "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0",
                "telemetry.metrics.endpoint=null", "telemetry.health.endpoint=null"]
    serve = [*command, "serve", *(word for setting in settings for word in ("--set", setting))]
    server = subprocess.Popen([str(part) for part in serve], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for line in server.stdout:
            if "try it:" in line:
                environment = dict(os.environ, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}")
                subprocess.run([python, AGENT], check=True, env=environment, capture_output=True)
            if "tool_error" in line:
                return True
        return False
    finally:
        server.terminate()
        server.wait()


WAYS = {
    "pip": ("*.whl", wheel, score_by_run),
    "uvx": ("*.whl", uvx, score_by_run),
    "npm": ("*.tgz", npm, score_by_run),
    "Debian": ("*.deb", deb, score_by_run),
    "static binary": ("spanscore-*-linux-*", copied, score_by_run),
    "container": ("*.oci", image, score_by_server),
    "cargo": ("../../Cargo.lock", cargo, score_by_run),
}


def now():
    """Processor time of this process and of all children that ended, and the clock."""
    spent = os.times()
    return [sum(spent[:4]), time.monotonic()]


def measure(package, install, score, python):
    with tempfile.TemporaryDirectory() as folder:
        began = now()
        program = install(package, pathlib.Path(folder))
        installed = now()
        if not score(program, python):
            raise SystemExit(f"{package}: no score")
        ended = now()
        return [after - before for after, before in zip(installed + ended, began + began)]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS), help="cargo takes some minutes a round")
    options.add_argument("--python", default=sys.executable)
    options = options.parse_args()
    for way in options.ways:
        pattern, install, score = WAYS[way]
        if way in ("uvx", "cargo") and shutil.which(way) is None:
            print(f"{way:14} not installed")
            continue
        found = sorted(glob.glob(str(PACKAGES / pattern)), key=os.path.getmtime)
        if not found:
            print(f"{way:14} not built")
            continue
        times = [measure(found[-1], install, score, options.python) for _ in range(options.rounds)]
        spent, clock, all_spent, all_clock = (statistics.median(column) for column in zip(*times))
        print(f"{way:14} processor: installed {spent:5.2f} s, first score {all_spent:5.2f} s  clock: {clock:5.1f} s, {all_clock:5.1f} s"
              f"  load {os.getloadavg()[0]:.0f}  {install.__doc__.split('.')[0]}", flush=True)


if __name__ == "__main__":
    main()
