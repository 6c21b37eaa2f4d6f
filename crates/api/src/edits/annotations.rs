//! Changes of annotations: create, update, delete.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use spanscore_store::query::StoredAnnotation;
use spanscore_store::{AnnotationChange, NewAnnotation, StoreView};

use super::{EditBody, Edited, deleted, edited, read, seen};
use crate::problem::ApiProblem;
use crate::shares::AskedBy;
use crate::state::Api;

/// Author if none is given.
const NOBODY: &str = "anonymous";
/// Header that identifies a repeated request.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewAnnotationBody {
    trace_id: Option<String>,
    session_id: Option<String>,
    evaluation_id: Option<String>,
    call: Option<i64>,
    name: Option<String>,
    label: Option<String>,
    score: Option<f64>,
    comment: Option<String>,
    author: Option<String>,
}

pub(super) async fn add(
    State(api): State<Arc<Api>>,
    asker: AskedBy,
    headers: HeaderMap,
    body: EditBody,
) -> Response {
    let new =
        read::<NewAnnotationBody>(&headers, body).and_then(|body| Ok((identity(&headers)?, body)));
    let edit = new.map(|(id, body)| {
        let NewAnnotationBody {
            trace_id,
            session_id,
            evaluation_id,
            call,
            name,
            label,
            score,
            comment,
            author,
        } = body;
        let verdict = AnnotationChange { label, score, comment };
        let author = author.filter(|it| !it.trim().is_empty()).unwrap_or(NOBODY.to_owned());
        let new =
            NewAnnotation { id, trace_id, session_id, evaluation_id, call, name, author, verdict };
        move |store: &StoreView| store.annotate(new).map(|(stored, is_new)| of(stored, is_new))
    });
    edited(&api, asker, edit).await
}

pub(super) async fn change(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    asker: AskedBy,
    headers: HeaderMap,
    body: EditBody,
) -> Response {
    let change = read::<AnnotationChange>(&headers, body);
    let change = change.and_then(|it| Ok((it, seen(&headers)?)));
    let edit = change.map(|(change, revision)| {
        move |store: &StoreView| {
            store.change_annotation(&id, change, revision).map(|stored| of(stored, false))
        }
    });
    edited(&api, asker, edit).await
}

pub(super) async fn delete(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let edit = seen(&headers)
        .map(|revision| move |store: &StoreView| store.delete_annotation(&id, revision));
    deleted(&api, edit).await
}

fn of(stored: StoredAnnotation, is_new: bool) -> Edited<StoredAnnotation> {
    let revision = stored.revision;
    Edited { stored, revision, is_new }
}

/// Returns the identity of an annotation, always the same for one key.
fn identity(headers: &HeaderMap) -> Result<[u8; 16], ApiProblem> {
    let mut id = [0; 16];
    match headers.get(IDEMPOTENCY_KEY) {
        Some(key) => id.copy_from_slice(&Sha256::digest(key.as_bytes())[..16]),
        None => getrandom::fill(&mut id).map_err(|error| {
            let status = http::StatusCode::INTERNAL_SERVER_ERROR;
            ApiProblem::new(status, "fault", error.to_string())
        })?,
    }
    Ok(id)
}
