"""Conformance of both receivers to HTTP/2, by h2spec: `python3 tests/interop/h2spec.py`.

SPANSCORE_BIN names the binary. h2spec is a program in Go; where none is in PATH it is built into a folder that goes
afterwards:
    go install github.com/summerwind/h2spec/cmd/h2spec@latest
Prints the cases that fail, and ends with 1 where one fails by itself too and `KNOWN` does not name it.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/load"))
from harness import Collector  # noqa: E402

CONFIG = "evaluators: {tool_error: }\nexporters: {prometheus: }"
# Cases that fail by an error of h2spec, with the place where that is told.
KNOWN = {"4.2/3": "sends 17,575 bytes of headers, whatever SETTINGS_MAX_FRAME_SIZE says: summerwind/h2spec#102, #142"}
# Times that a case is run again by itself. An answer that comes before the end of its request, as HTTP/2 allows
# (RFC 9113, section 8.1), may overtake the frame that is wrong.
AGAIN = 8


def program(folder):
    """h2spec, built where there is none."""
    found = shutil.which("h2spec")
    if found:
        return found
    subprocess.run(["go", "install", "github.com/summerwind/h2spec/cmd/h2spec@latest"],
                   env=os.environ | {"GOBIN": str(folder)}, check=True)
    return str(pathlib.Path(folder) / "h2spec")


def run(h2spec, port, path, *cases):
    command = [h2spec, "-p", str(port), "-P", path, "-o", "3", *cases]
    return subprocess.run(command, capture_output=True, text=True)


def failures(text):
    """The failed cases: the section and number of each with what was expected and seen."""
    heads, found = [], {}
    for line in text.split("Failures:")[-1].splitlines() if "Failures:" in text else []:
        section = re.match(r"\s*(\d+(?:\.\d+)*)\. (.*)", line)
        case = re.match(r"\s*× (\d+): (.*)", line)
        if section:
            heads = section.groups()
        elif case:
            found[f"{heads[0]}/{case[1]}"] = case[2]
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--verbose", action="store_true", help="print all that h2spec says")
    options = options.parse_args()
    is_well = True
    with tempfile.TemporaryDirectory() as folder:
        h2spec = program(folder)
        collector = Collector(CONFIG)
        for name, port, path in [("http", collector.http, "/v1/traces"), ("grpc", collector.grpc, "/x")]:
            ran = run(h2spec, port, path)
            if options.verbose:
                print(ran.stdout)
            counts = re.search(r"\d+ tests, .*", ran.stdout)
            failed = failures(ran.stdout)
            print(f"{name}: {counts[0] if counts else ran.stdout[-300:] + ran.stderr}")
            for case, words in failed.items():
                passed = case not in KNOWN and any(not failures(run(h2spec, port, path, f"http2/{case}").stdout)
                                                   for _ in range(AGAIN))
                told = "passes by itself" if passed else KNOWN.get(case, "fails by itself")
                print(f"  {case}: {words}: {told}")
                is_well = is_well and (passed or case in KNOWN)
            is_well = is_well and counts is not None
        collector.stop()
    raise SystemExit(0 if is_well else 1)


if __name__ == "__main__":
    main()
