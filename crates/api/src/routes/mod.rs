//! Routes that query the store, as data: path, parameters, answer.

mod agreement;
mod compare;
mod figures;
mod lists;
mod people;
mod status;
mod summary;

use jiff::Timestamp;

use spanscore_store::TraceLink;
use spanscore_store::query::StoreReader;

use crate::problem::ApiProblem;
use crate::question::{ApiQuery, Takes};

pub(crate) use status::status;

/// Query with its reader.
pub(crate) struct RouteQuery<'a> {
    pub(crate) reader: &'a StoreReader,
    pub(crate) question: &'a ApiQuery,
    pub(crate) trace_link: Option<&'a TraceLink>,
}

/// Answer of a route, as JSON.
type RouteAnswer = fn(&RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem>;

/// Route that queries the store.
pub(crate) struct QueryRoute {
    /// Path below `/api/v1`.
    pub(crate) path: &'static str,
    pub(crate) takes: Takes,
    pub(crate) answer: RouteAnswer,
}

const fn filtered(others: &'static [&'static str], groups_max: usize) -> Takes {
    Takes { filter: true, others, groups_max }
}

const fn unfiltered(others: &'static [&'static str]) -> Takes {
    Takes { filter: false, others, groups_max: 0 }
}

const fn route(path: &'static str, takes: Takes, answer: RouteAnswer) -> QueryRoute {
    QueryRoute { path, takes, answer }
}

/// Parameters of the annotation list.
const ANNOTATION_PARAMETERS: [&str; 8] =
    ["trace_id", "session_id", "label", "author", "name", "evaluator", "limit", "cursor"];

/// All routes that query the store.
pub(crate) const ROUTES: [QueryRoute; 18] = [
    route("/traces", filtered(&["limit", "cursor", "sort"], 0), lists::traces),
    route("/traces/{trace_id}", unfiltered(&[]), lists::trace),
    route("/evaluations", filtered(&["limit", "cursor"], 0), lists::evaluations),
    route("/sessions", filtered(&["limit", "cursor"], 0), lists::sessions),
    route("/calls", filtered(&["limit", "cursor"], 0), lists::calls),
    route("/tools", filtered(&[], 0), figures::tools),
    route("/argument_errors", filtered(&[], 0), figures::argument_errors),
    route("/evaluators", filtered(&[], 0), figures::evaluators),
    route("/evaluators/{kind}/{name}", filtered(&[], 0), figures::evaluator),
    route("/summary", filtered(&["group_by"], 3), summary::summary),
    route("/series", filtered(&["group_by"], 1), summary::series),
    route("/distribution", filtered(&[], 0), figures::distribution),
    route("/compare", filtered(&["a", "b"], 0), compare::compare),
    route("/annotations", unfiltered(&ANNOTATION_PARAMETERS), people::annotations),
    route("/agreement", filtered(&[], 0), agreement::of_people),
    route("/datasets", unfiltered(&[]), people::datasets),
    route("/datasets/{dataset}", unfiltered(&["limit", "cursor"]), people::dataset),
    route("/datasets/{dataset}/items.jsonl", unfiltered(&[]), people::dataset_file),
];

/// Formats a time, RFC 3339.
pub(crate) fn rfc3339(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("{time:.3}")
}
