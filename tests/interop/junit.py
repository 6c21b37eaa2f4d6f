#!/usr/bin/env python3
"""Validates the JUnit output of a spanscore binary against published schemas.

    junit.py PATH-TO-SPANSCORE [SCHEMA.xsd ...]

Without schemas it takes the one of Jenkins' xUnit plugin that stands in pytest's source archive,
which pip brings. Needs `lxml`. Input are recorded traces of the repository, good, failing, without
content and hostile ones. Prints a line for each check; exits 1 if any failed.
"""

import glob
import os
import subprocess
import sys
import tarfile
import tempfile

from lxml import etree

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PYTEST = "pytest==8.3.4"
CONFIG = """
evaluators:
  tool_error: {}
  tool_efficiency: {}
  tool_call_order/a<b: {criteria: {tool_calls_order: ['"quoted" & <tagged>', search]}}
  tool_call_args/none: {criteria: {tool_calls: [{name: search, args: {q: x}}]}}
  output_rules: {}
"""


def schema_of_pytest(folder):
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
               "-d", folder, PYTEST]
    subprocess.run(command, check=True)
    [archive] = glob.glob(os.path.join(folder, "pytest-*.tar.gz"))
    with tarfile.open(archive) as tar:
        [member] = [it for it in tar.getmembers() if it.name.endswith("junit-10.xsd")]
        path = os.path.join(folder, "junit-10.xsd")
        with open(path, "wb") as out:
            out.write(tar.extractfile(member).read())
    return path


def hostile(folder):
    """A trace whose names hold what XML cannot, or gives a meaning to."""
    name = "<b>&\\u0000\\u001b[2J]]>\\u202e\\ufffe\\ud83d\\ude00"
    span = lambda number, parent, more: (
        '{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"%016x","parentSpanId":"%s",'
        '"name":"%s","startTimeUnixNano":"1000","endTimeUnixNano":"2000",'
        '"attributes":[%s],"status":{"code":2,"message":"%s"}}' % (number, parent, name, more, name))
    text = lambda key, value: '{"key":"%s","value":{"stringValue":"%s"}}' % (key, value)
    tool = ",".join([text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", name)])
    agent = text("gen_ai.operation.name", "invoke_agent")
    path = os.path.join(folder, "hostile.json")
    with open(path, "w") as out:
        out.write('{"resourceSpans":[{"scopeSpans":[{"spans":[%s,%s]}]}]}' % (
            span(1, "", agent), span(2, "%016x" % 1, tool)))
    return path


def main():
    binary, failed = os.path.abspath(sys.argv[1]), 0
    with tempfile.TemporaryDirectory() as folder:
        paths = sys.argv[2:] or [schema_of_pytest(folder)]
        schemas = [(os.path.basename(path), etree.XMLSchema(file=path)) for path in paths]
        config = os.path.join(folder, "config.yaml")
        with open(config, "w") as out:
            out.write(CONFIG)
        inputs = sorted(glob.glob(os.path.join(ROOT, "examples", "traces", "*.json")))
        inputs += [hostile(folder)]
        for name, files in [("each", [it]) for it in inputs] + [("all", inputs)]:
            for details in ([], ["--details"]):
                command = [binary, "score", "--config", config, "--format", "junit", *details, *files]
                ended = subprocess.run(command, capture_output=True)
                what = f"{name} {os.path.basename(files[0])} {' '.join(details)}"
                document = etree.fromstring(ended.stdout)
                cases = len(document.findall(".//testcase"))
                for schema_name, schema in schemas:
                    good = schema.validate(document) and cases > 0
                    failed += not good
                    shown = "" if good else schema.error_log
                    print("ok  " if good else "FAIL", schema_name, what, f"{cases} cases", shown)
    sys.exit(1 if failed else 0)


main()
