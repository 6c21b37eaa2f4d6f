//! Gemini: parts `{functionCall: ...}` and `{functionResponse: ...}`, in snake case too; and the
//! form in which its CLI repeats a call that it makes.

use super::{ApiShape, has};

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "gemini",
    call_in: &["functionCall", "function_call"],
    result_in: &["functionResponse", "function_response"],
    is_call: |map, kind| kind.is_none() && has(map, &["callId", "name", "args"]),
    ..ApiShape::NONE
};
