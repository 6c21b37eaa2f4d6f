//! Changes of dataset items: derive from a run, update, delete.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use spanscore_store::query::DatasetItem;
use spanscore_store::{DatasetItemChange, NewDatasetItem, StoreView};

use super::{EditBody, Edited, deleted, edited, read, seen};
use crate::shares::AskedBy;
use crate::state::Api;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewDatasetItemBody {
    trace_id: String,
    key: Option<String>,
    criteria: Option<Value>,
    note: Option<String>,
}

pub(super) async fn add(
    State(api): State<Arc<Api>>,
    Path(dataset): Path<String>,
    asker: AskedBy,
    headers: HeaderMap,
    body: EditBody,
) -> Response {
    let new = read::<NewDatasetItemBody>(&headers, body);
    let edit = new.map(|NewDatasetItemBody { trace_id, key, criteria, note }| {
        let change = DatasetItemChange { criteria, note };
        let new = NewDatasetItem { dataset, trace_id, key, change };
        move |store: &StoreView| store.add_item(new).map(|item| of(item, true))
    });
    edited(&api, asker, edit).await
}

pub(super) async fn change(
    State(api): State<Arc<Api>>,
    Path((dataset, key)): Path<(String, String)>,
    asker: AskedBy,
    headers: HeaderMap,
    body: EditBody,
) -> Response {
    let change = read::<DatasetItemChange>(&headers, body);
    let change = change.and_then(|it| Ok((it, seen(&headers)?)));
    let edit = change.map(|(change, revision)| {
        move |store: &StoreView| {
            store.change_item((&dataset, &key), change, revision).map(|item| of(item, false))
        }
    });
    edited(&api, asker, edit).await
}

pub(super) async fn delete(
    State(api): State<Arc<Api>>,
    Path((dataset, key)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let edit = seen(&headers)
        .map(|revision| move |store: &StoreView| store.delete_item((&dataset, &key), revision));
    deleted(&api, edit).await
}

fn of(stored: DatasetItem, is_new: bool) -> Edited<DatasetItem> {
    let revision = stored.revision;
    Edited { stored, revision, is_new }
}
