//! Codex' events of finished tools: the call and its output in one object.

use super::{ApiShape, has};

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "codex",
    is_call: |map, kind| kind.is_none() && has(map, &["call_id", "tool_name", "success"]),
    ..ApiShape::NONE
};
