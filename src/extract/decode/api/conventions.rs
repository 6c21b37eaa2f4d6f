//! The semantic conventions: parts of the types `tool_call` and `tool_call_response`.

use super::ApiShape;

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "conventions",
    call_in: &["tool_call"],
    is_call: |_, kind| kind == Some("tool_call"),
    is_result: |_, kind| kind == Some("tool_call_response"),
    ..ApiShape::NONE
};
