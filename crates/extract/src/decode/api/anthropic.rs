//! Anthropic's Messages: blocks of the type `tool_use`, answered by blocks of the type
//! `tool_result`, which may say `is_error`.

use super::ApiShape;

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "anthropic",
    is_call: |_, kind| matches!(kind, Some("tool_use" | "mcp_tool_use")),
    is_result: |_, kind| matches!(kind, Some("tool_result" | "mcp_tool_result")),
    ..ApiShape::NONE
};
