//! Table of the shapes: one entry per API, with a fixture of its name in `tests/fixtures/bodies/`.

use super::{ApiShape, has};
use spanscore_base::value::{Map, Value};

/// Known shapes.
pub(super) static SHAPES: [ApiShape; 15] = [
    // Semantic conventions: parts of the types `tool_call` and `tool_call_response`, or
    // `server_tool_call` and `server_tool_call_response` for tools run by the provider.
    ApiShape {
        name: "conventions",
        call_in: &["tool_call"],
        is_call: |_, kind| matches!(kind, Some("tool_call" | "server_tool_call")),
        is_result: |_, kind| {
            matches!(kind, Some("tool_call_response" | "server_tool_call_response"))
        },
        ..ApiShape::NONE
    },
    // OpenAI's Chat Completions: `tool_calls` with a `function` each, answered by messages of the
    // role `tool`.
    ApiShape {
        name: "openai_chat",
        is_call: |map, _| map.get("function").is_some_and(|inner| inner.get("name").is_some()),
        ..ApiShape::NONE
    },
    // OpenAI's Responses: items of the types `function_call` and `function_call_output`.
    ApiShape {
        name: "openai_responses",
        is_call: |_, kind| matches!(kind, Some("function_call" | "custom_tool_call" | "mcp_call")),
        is_result: |_, kind| {
            matches!(
                kind,
                Some("function_call_output" | "custom_tool_call_output" | "mcp_call_output")
            )
        },
        ..ApiShape::NONE
    },
    // Anthropic's Messages: blocks of the type `tool_use`, answered by blocks of the type
    // `tool_result`, which may say `is_error`.
    ApiShape {
        name: "anthropic",
        is_call: |_, kind| matches!(kind, Some("tool_use" | "mcp_tool_use")),
        is_result: |_, kind| matches!(kind, Some("tool_result" | "mcp_tool_result")),
        ..ApiShape::NONE
    },
    // Bedrock's Converse: blocks `{toolUse: ...}` and `{toolResult: ...}`, with an optional
    // `status` of `error`.
    ApiShape {
        name: "bedrock",
        call_in: &["toolUse"],
        result_in: &["toolResult"],
        ..ApiShape::NONE
    },
    // Gemini: parts `{functionCall: ...}` and `{functionResponse: ...}`, also in snake case; and
    // its CLI's form of a call to be made.
    ApiShape {
        name: "gemini",
        call_in: &["functionCall", "function_call"],
        result_in: &["functionResponse", "function_response"],
        is_call: |map, kind| kind.is_none() && has(map, &["callId", "name", "args"]),
        ..ApiShape::NONE
    },
    // Cohere's Chat: version two is like OpenAI's, with documents as the content of results;
    // version one has `parameters`, and repeats the call next to the `outputs`.
    ApiShape {
        name: "cohere",
        is_call: |map, kind| {
            kind.is_none() && has(map, &["name", "parameters"]) && !is_definition(map)
        },
        is_result: |map, kind| kind.is_none() && has(map, &["call", "outputs"]),
        ..ApiShape::NONE
    },
    // Ollama's Chat: calls like OpenAI's without ids and types, arguments as objects; results name
    // the tool.
    ApiShape {
        name: "ollama",
        is_call: |map, _| has(map, &["name"]) && (has(map, &["arguments"]) || has(map, &["args"])),
        ..ApiShape::NONE
    },
    // Vercel AI SDK: parts of the types `tool-call` and `tool-result`, or objects with a
    // `toolCallId`.
    ApiShape {
        name: "vercel",
        is_call: |map, kind| kind == Some("tool-call") || has(map, &["toolCallId"]),
        is_result: |map, kind| {
            kind == Some("tool-result") || kind.is_none() && has(map, &["toolCallId", "result"])
        },
        ..ApiShape::NONE
    },
    // Genkit: parts `{toolRequest: ...}` and `{toolResponse: ...}`.
    ApiShape {
        name: "genkit",
        call_in: &["toolRequest"],
        result_in: &["toolResponse"],
        ..ApiShape::NONE
    },
    // Haystack's chat messages, as JSON and as printed by Python: `tool_call` with `tool_name`, and
    // `tool_call_result` with the call as its `origin` and an `error` flag.
    ApiShape {
        name: "haystack",
        result_in: &["tool_call_result"],
        is_call: |map, kind| kind.is_none() && has(map, &["tool_name", "arguments"]),
        is_result: |map, kind| kind.is_none() && has(map, &["result", "origin"]),
        ..ApiShape::NONE
    },
    // `LlamaIndex`'s chat messages: blocks of the type `tool_call` with `tool_kwargs`; the id of a
    // result's call is in `additional_kwargs`.
    ApiShape {
        name: "llamaindex",
        is_call: |map, kind| kind.is_none() && has(map, &["tool_name", "tool_kwargs"]),
        ..ApiShape::NONE
    },
    // Pydantic AI's serialised messages: parts marked by a `part_kind`.
    ApiShape {
        name: "pydantic",
        is_call: |map, _| part_kind(map) == Some("tool-call"),
        is_result: |map, _| {
            part_kind(map) == Some("tool-return")
                || part_kind(map) == Some("retry-prompt") && map.get("tool_name").is_some()
        },
        ..ApiShape::NONE
    },
    // Claude Code's events of finished tools: the call and, if it failed, its error in one object.
    ApiShape {
        name: "claude_code",
        is_call: |map, kind| kind.is_none() && has(map, &["tool_use_id", "tool_input"]),
        ..ApiShape::NONE
    },
    // Codex' events of finished tools: the call and its output in one object.
    ApiShape {
        name: "codex",
        is_call: |map, kind| kind.is_none() && has(map, &["call_id", "tool_name", "success"]),
        ..ApiShape::NONE
    },
];

/// Returns true for a tool definition, which has members of a call.
fn is_definition(map: &Map<'_>) -> bool {
    let schema = |value: &Value<'_>| {
        ["type", "properties", "$schema"].iter().any(|key| value.get(key).is_some())
    };
    map.get("description").is_some() || map.get("parameters").is_some_and(schema)
}

/// Returns the `part_kind` of a part.
pub(in super::super) fn part_kind<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    map.get("part_kind").and_then(Value::as_str)
}
