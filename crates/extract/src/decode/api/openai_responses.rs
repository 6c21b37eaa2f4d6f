//! OpenAI's Responses: items of the types `function_call` and `function_call_output`.

use super::ApiShape;

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "openai_responses",
    is_call: |_, kind| matches!(kind, Some("function_call" | "custom_tool_call" | "mcp_call")),
    is_result: |_, kind| {
        matches!(kind, Some("function_call_output" | "custom_tool_call_output" | "mcp_call_output"))
    },
    ..ApiShape::NONE
};
