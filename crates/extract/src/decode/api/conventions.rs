//! The semantic conventions: parts of the types `tool_call` and `tool_call_response`; for tools
//! that run beside the model, `server_tool_call` and `server_tool_call_response`.

use super::ApiShape;

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "conventions",
    call_in: &["tool_call"],
    is_call: |_, kind| matches!(kind, Some("tool_call" | "server_tool_call")),
    is_result: |_, kind| matches!(kind, Some("tool_call_response" | "server_tool_call_response")),
    ..ApiShape::NONE
};
