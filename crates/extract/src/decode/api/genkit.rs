//! Genkit: parts `{toolRequest: ...}` and `{toolResponse: ...}`.

use super::ApiShape;

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "genkit",
    call_in: &["toolRequest"],
    result_in: &["toolResponse"],
    ..ApiShape::NONE
};
