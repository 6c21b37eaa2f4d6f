//! The Vercel AI SDK: parts of the types `tool-call` and `tool-result`, or objects that name a
//! `toolCallId`.

use super::{ApiShape, has};

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "vercel",
    is_call: |map, kind| kind == Some("tool-call") || has(map, &["toolCallId"]),
    is_result: |map, kind| {
        kind == Some("tool-result") || kind.is_none() && has(map, &["toolCallId", "result"])
    },
    ..ApiShape::NONE
};
