//! Claude Code's events of finished tools: the call and, if it failed, its error in one object.

use super::{ApiShape, has};

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "claude_code",
    is_call: |map, kind| kind.is_none() && has(map, &["tool_use_id", "tool_input"]),
    ..ApiShape::NONE
};
