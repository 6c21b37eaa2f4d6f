//! Explanation of pasted requests: one at a time with a short queue, nothing stored.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

use spanscore_base::model::Sender;

use crate::body::ApiBody;
use crate::problem::ApiProblem;
use crate::readers::ANSWER_BYTES_MAX;
use crate::state::InspectRequest;
use crate::turns::{TurnLimits, WorkTurns};

/// Longest explained request.
pub(crate) const INSPECTED_BYTES_MAX: usize = 4 << 20;

/// Limit on requests waiting for an explanation; a peer may have all but one.
pub(crate) const WAITING_MAX: usize = 4;

/// Explanations, one at a time, in fair turns.
pub(crate) struct Inspecting {
    inspect: InspectRequest,
    turns: Arc<WorkTurns>,
}

impl Inspecting {
    pub(crate) fn new(inspect: InspectRequest) -> Self {
        let limits = TurnLimits { of_all: 1, of_peer: 1 };
        Self { inspect, turns: WorkTurns::new("inspections", limits, WAITING_MAX) }
    }

    /// Explains a request, on a thread for blocking work.
    pub(crate) async fn explain(
        &self,
        headers: &HeaderMap,
        sender: Sender,
        body: ApiBody<INSPECTED_BYTES_MAX>,
    ) -> Result<Vec<u8>, ApiProblem> {
        let is_json = |it: &HeaderValue| it.as_bytes().starts_with(b"application/json");
        if !headers.get(CONTENT_TYPE).is_some_and(is_json) {
            let text = "send OTLP/JSON with `Content-Type: application/json`";
            return Err(ApiProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_value", text));
        }
        let busy = || {
            let text = "too many requests wait to be explained, or yours take your part of the \
                        places: ask again in a second";
            ApiProblem::new(StatusCode::TOO_MANY_REQUESTS, "too_busy", text)
        };
        let turn = self.turns.take(sender).await.ok_or_else(busy)?;
        let inspect = Arc::clone(&self.inspect);
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            inspect(body.as_ref())
        });
        let fault = "the request could not be explained: report it";
        let answer = asked
            .await
            .map_err(|_| ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "fault", fault))?;
        let answer =
            answer.map_err(|text| ApiProblem::new(StatusCode::BAD_REQUEST, "bad_value", text))?;
        if answer.len() > ANSWER_BYTES_MAX {
            let text = "the answer would be over 8 MiB: paste fewer spans";
            return Err(ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_large", text));
        }
        Ok(answer)
    }
}
