//! Gemini: parts `{functionCall: ...}` and `{functionResponse: ...}`, in snake case too.

use super::ApiShape;

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "gemini",
    call_in: &["functionCall", "function_call"],
    result_in: &["functionResponse", "function_response"],
    ..ApiShape::NONE
};
