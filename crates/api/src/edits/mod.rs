//! Changes by people: annotations and dataset items.
//!
//! The guard has checked the right to write. A body is JSON with known fields. `If-Match` names the
//! revision that was read, so that unseen changes are not overwritten.

mod annotations;
mod datasets;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use axum::routing::{patch, post};
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use spanscore_store::{StoreEditError, StoreView};

use crate::body::ApiBody;
use crate::problem::ApiProblem;
use crate::readers::answer;
use crate::router::{PREFIX, json};
use crate::shares::{AskedBy, HeldAnswer};
use crate::state::Api;

/// Longest body of a change, and room reserved for its answer.
pub(crate) const EDIT_BYTES_MAX: usize = 128 << 10;

/// Paths below [`PREFIX`] with changes, with their methods.
#[cfg(test)]
pub(crate) const EDITS: [(&str, &[&str]); 4] = [
    ("/annotations", &["post"]),
    ("/annotations/{annotation_id}", &["patch", "delete"]),
    ("/datasets/{dataset}/items", &["post"]),
    ("/datasets/{dataset}/items/{key}", &["patch", "delete"]),
];

/// Returns the routes of changes.
pub(crate) fn edits(base: &str) -> Router<Arc<Api>> {
    let at = |path: &str| format!("{base}{PREFIX}{path}");
    Router::new()
        .route(&at("/annotations"), post(annotations::add))
        .route(
            &at("/annotations/{annotation_id}"),
            patch(annotations::change).delete(annotations::delete),
        )
        .route(&at("/datasets/{dataset}/items"), post(datasets::add))
        .route(
            &at("/datasets/{dataset}/items/{key}"),
            patch(datasets::change).delete(datasets::delete),
        )
}

/// Body of a request, or the reason that it is unreadable.
type EditBody = Result<ApiBody<EDIT_BYTES_MAX>, ApiProblem>;

/// Stored item, marked if new.
struct Edited<T> {
    stored: T,
    revision: i64,
    is_new: bool,
}

/// Reads a JSON body.
fn read<B: DeserializeOwned>(headers: &HeaderMap, body: EditBody) -> Result<B, ApiProblem> {
    let media = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        let text = "send the change as JSON, with `Content-Type: application/json`";
        return Err(ApiProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_media_type", text));
    }
    serde_json::from_slice(body?.as_ref())
        .map_err(|error| ApiProblem::new(StatusCode::BAD_REQUEST, "bad_value", error.to_string()))
}

/// Reads the expected revision.
fn seen(headers: &HeaderMap) -> Result<Option<i64>, ApiProblem> {
    let Some(seen) = headers.get(IF_MATCH) else { return Ok(None) };
    let seen = seen.to_str().unwrap_or_default().trim().trim_matches('"').parse();
    seen.map(Some).map_err(|_| {
        ApiProblem::value("If-Match", "`If-Match` is the `revision` that was read, as `\"3\"`")
    })
}

/// Makes a change in the store, on a thread for blocking work; answers with the stored item.
async fn edited<T: Serialize + Send + 'static>(
    api: &Api,
    asker: AskedBy,
    edit: Result<
        impl FnOnce(&StoreView) -> Result<Edited<T>, StoreEditError> + Send + 'static,
        ApiProblem,
    >,
) -> Response {
    let answered = async {
        let edit = edit?;
        // Before the change: a completed change must not be reported as refused.
        let held = api.room(asker, EDIT_BYTES_MAX)?;
        let Edited { stored, revision, is_new } = blocking(api, edit).await?;
        let bytes = answer(&stored)?.into();
        let mut response = json(Bytes::from_owner(HeldAnswer { bytes, _held: held }));
        if is_new {
            *response.status_mut() = StatusCode::CREATED;
        }
        if let Ok(tag) = HeaderValue::try_from(format!("\"{revision}\"")) {
            response.headers_mut().insert(ETAG, tag);
        }
        Ok::<_, ApiProblem>(response)
    };
    answered.await.unwrap_or_else(|problem| api.refuse(problem))
}

/// Has the store delete something.
async fn deleted(
    api: &Api,
    edit: Result<
        impl FnOnce(&StoreView) -> Result<(), StoreEditError> + Send + 'static,
        ApiProblem,
    >,
) -> Response {
    let deleted = async { blocking(api, edit?).await };
    match deleted.await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => api.refuse(problem),
    }
}

async fn blocking<T: Send + 'static>(
    api: &Api,
    edit: impl FnOnce(&StoreView) -> Result<T, StoreEditError> + Send + 'static,
) -> Result<T, ApiProblem> {
    let store = api.store.clone();
    let done = tokio::task::spawn_blocking(move || edit(&store)).await;
    done.unwrap_or(Err(StoreEditError::Unavailable)).map_err(ApiProblem::from)
}

impl From<StoreEditError> for ApiProblem {
    fn from(error: StoreEditError) -> Self {
        let detail = error.to_string();
        let (status, kind) = match error {
            StoreEditError::Run(error) => return error.into(),
            StoreEditError::Value { name, what } => return Self::value(name, what),
            StoreEditError::Missing { .. } => return Self::not_found(detail),
            StoreEditError::Exists { .. } => (StatusCode::CONFLICT, "exists"),
            StoreEditError::Full { .. } => (StatusCode::CONFLICT, "full"),
            StoreEditError::Changed { .. } => (StatusCode::PRECONDITION_FAILED, "changed"),
            StoreEditError::Busy => (StatusCode::TOO_MANY_REQUESTS, "too_busy"),
            StoreEditError::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
        };
        Self::new(status, kind, detail)
    }
}
