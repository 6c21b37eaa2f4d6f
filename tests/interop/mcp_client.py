#!/usr/bin/env python3
"""Talks to `spanscore mcp` with the reference client of the Model Context Protocol.

    python3 -m venv target/interop-mcp
    target/interop-mcp/bin/pip install mcp==2.3.0
    target/interop-mcp/bin/python tests/interop/mcp_client.py PATH-TO-SPANSCORE

Prints a line for each check and ends with `N passed, N failed`; exits 1 if any failed.
"""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TRACES = os.path.join(ROOT, "examples", "traces")
TOOLS = {"summarize", "list_evaluators", "query_evaluations", "get_trajectory"}
passed, failed = 0, 0


def check(what, good, found=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok  " if good else "FAIL", what, "" if good else found, flush=True)


def member(of, *names):
    """A field, whatever the case that this version of the client gives it."""
    for name in names:
        if hasattr(of, name):
            return getattr(of, name)
    raise AttributeError(names)


def told(result):
    text = json.loads(result.content[0].text)
    structured = member(result, "structured_content", "structuredContent")
    check("text and structured content are the same", text == structured, (text, structured))
    return text


async def talk(program):
    server = StdioServerParameters(command=program, args=["mcp", "--content", "full", TRACES])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        info = await session.initialize()
        name = member(info, "server_info", "serverInfo").name
        check("it says what it is", name == "spanscore", info)
        tools = (await session.list_tools()).tools
        check("read-only tools, and no other", {tool.name for tool in tools} == TOOLS, tools)
        hints = [member(tool.annotations, "read_only_hint", "readOnlyHint") for tool in tools]
        check("all say that they change nothing", all(hints), hints)

        summary = told(await session.call_tool("summarize", {}))
        check("traces were read", summary["traces"] > 1, summary)
        check("and judged", summary["evaluations"] > 0, summary)
        names = told(await session.call_tool("list_evaluators", {"kinds": True}))
        check("evaluators are listed", len(names["evaluators"]) > 0, names)

        found, cursor = [], None
        while True:
            given = {"limit": 3, **({"cursor": cursor} if cursor else {})}
            page = told(await session.call_tool("query_evaluations", given))
            found += page["evaluations"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        check("pages hold all evaluations", len(found) == summary["evaluations"], len(found))
        ids = {row["evaluation_id"] for row in found if row["evaluation_id"]}
        check("each once", len(ids) == len(found), found)

        trace = found[0]["trace_id"]
        run = told(await session.call_tool("get_trajectory", {"trace_id": trace}))
        check("a trajectory has its calls", len(run["tool_calls"]) > 0, run)
        wrong = await session.call_tool("get_trajectory", {"trace_id": "xyz"})
        is_error = member(wrong, "is_error", "isError")
        check("a wrong id is told", is_error and "32" in wrong.content[0].text, wrong)

        resources = (await session.list_resources()).resources
        check("traces are resources", len(resources) == summary["traces"] + 1, resources)
        read_back = await session.read_resource(f"spanscore://traces/{trace}")
        whole = json.loads(read_back.contents[0].text)
        check("a resource is a trajectory", whole["trace_id"] == trace, whole)
        templates = await session.list_resource_templates()
        templates = member(templates, "resource_templates", "resourceTemplates")
        check("and there is a template", len(templates) == 1, templates)


asyncio.run(talk(sys.argv[1]))
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
