#!/usr/bin/env python3
"""Types every command of docs/ten_minutes.md, and compares what is printed with what the page says.

    run.py WHEEL [--write]

Runs in an empty folder, with the packages of the interpreter that runs this. Ports are replaced by free ones; ids of traces are
not compared. With `--write` the outputs of the page are those of this run. Exits 1 if one differs.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "ten_minutes.md")
# A block of commands, and the output that follows it.
BLOCK = re.compile(r"```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S)
# Seconds for a collector to start, and to judge.
PATIENCE = 60
# Seconds after which a block of commands is taken to wait for ever.
ENDLESS = 300
END = "-- end of block --"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Shell:
    """One shell for all blocks, as somebody at a terminal has one."""

    def __init__(self, folder, environment):
        self.bash = subprocess.Popen(
            ["bash", "--norc"], cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )

    def type(self, commands):
        self.bash.stdin.write(f"{commands}\necho '{END}'\n")
        self.bash.stdin.flush()
        printed = ""
        limit = threading.Timer(ENDLESS, os.killpg, (self.bash.pid, signal.SIGKILL))
        limit.start()
        for line in self.bash.stdout:
            # After what a program left without the end of a line.
            if line.rstrip().endswith(END):
                limit.cancel()
                return printed + line.rstrip().removesuffix(END)
            printed += line
        sys.exit(f"{printed}took over {ENDLESS} s, or ended the shell: {commands}")

    def end(self):
        self.type("kill $(jobs -p) 2> /dev/null; wait")
        self.bash.stdin.close()
        self.bash.wait()


def stable(text):
    """Without what differs from run to run."""
    text = re.sub(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}\b(?=  )", "TRACE-ID", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
    text = re.sub(r"\bin \d+\.\d+s\b", "in SECONDS", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?", "TIME", text)
    text = re.sub(r'time="[\d.]+"', 'time="SECONDS"', text)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def has_answer(commands, printed):
    """Whether a collector that has just been started listens, and one that judges is done."""
    asks = {"spanscore send": "sent ", "spanscore scores": "  fail  "}
    return all(sign in printed for start, sign in asks.items() if commands.startswith(start))


def on_free_ports(commands, http, pages):
    """Moves the collector of the page away from ports that others may have."""
    endpoints = {
        "receivers.otlp.protocols.http": http, "receivers.otlp.protocols.grpc": 0, "telemetry.metrics": 0,
        "telemetry.health": 0, "dashboard": pages,
    }
    moved = " ".join(f"--set {key}.endpoint=127.0.0.1:{port}" for key, port in endpoints.items())
    return commands.replace("spanscore --config golden.yaml", f"spanscore --config golden.yaml {moved}")


def prepared(folder, wheel):
    """The folder of the page, with an environment that has the frameworks already."""
    shutil.copy(wheel, folder)
    shutil.copy(os.path.join(HERE, "agent.py"), folder)
    subprocess.run([sys.executable, "-m", "venv", os.path.join(folder, "venv")], check=True)
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = os.path.join(folder, "venv", "lib", python, "site-packages")
    with open(os.path.join(packages, "interop.pth"), "w") as path:
        path.write(sysconfig.get_paths()["purelib"] + "\n")
    unset = ("OTEL_", "SPANSCORE_", "GITHUB_", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment["PATH"]
    return environment


def main():
    wheel = os.path.abspath(sys.argv[1])
    with open(PAGE) as page:
        text = page.read()
    http, pages = free_port(), free_port()
    failed, outputs = 0, []
    with tempfile.TemporaryDirectory() as folder:
        environment = prepared(folder, wheel)
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{http}"
        shell = Shell(folder, environment)
        for commands, expected in BLOCK.findall(text):
            typed = on_free_ports(commands, http, pages)
            printed, until = shell.type(typed), time.monotonic() + PATIENCE
            while not has_answer(typed, printed) and time.monotonic() < until:
                time.sleep(0.5)
                printed = shell.type(typed)
            good = not expected or stable(printed) == stable(expected)
            outputs.append((expected, printed))
            failed += not good
            print("ok  " if good else "FAIL", commands.splitlines()[0], "" if good else f"\n{printed}", flush=True)
        shown = urllib.request.urlopen(f"http://127.0.0.1:{pages}/", timeout=10).read()
        good = b"<html" in shown
        failed += not good
        print("ok  " if good else "FAIL", "the page is served")
        shell.end()
    if "--write" in sys.argv:
        for expected, printed in outputs:
            text = text.replace(expected, printed, 1) if expected else text
        with open(PAGE, "w") as page:
            page.write(text)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
