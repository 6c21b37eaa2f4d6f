//! Routes that ask the store, as data: path, parameters, answer.

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

/// Question with the reader that answers it.
pub(crate) struct RouteQuery<'a> {
    pub(crate) reader: &'a StoreReader,
    pub(crate) question: &'a ApiQuery,
    pub(crate) trace_link: Option<&'a TraceLink>,
}

/// Route that asks the store.
pub(crate) struct QueryRoute {
    /// Path below `/api/v1`.
    pub(crate) path: &'static str,
    pub(crate) takes: Takes,
    pub(crate) answer: fn(&RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem>,
}

const fn filtered(others: &'static [&'static str], groups_max: usize) -> Takes {
    Takes { filter: true, others, groups_max }
}

/// No parameters.
const NOTHING: Takes = Takes { filter: false, others: &[], groups_max: 0 };
/// Parameters of the list of annotations.
const ANNOTATION_PARAMETERS: [&str; 8] =
    ["trace_id", "session_id", "label", "author", "name", "evaluator", "limit", "cursor"];

/// All routes that ask the store.
pub(crate) const ROUTES: [QueryRoute; 18] = [
    QueryRoute {
        path: "/traces",
        takes: filtered(&["limit", "cursor", "sort"], 0),
        answer: lists::traces,
    },
    QueryRoute { path: "/traces/{trace_id}", takes: NOTHING, answer: lists::trace },
    QueryRoute {
        path: "/evaluations",
        takes: filtered(&["limit", "cursor"], 0),
        answer: lists::evaluations,
    },
    QueryRoute {
        path: "/sessions",
        takes: filtered(&["limit", "cursor"], 0),
        answer: lists::sessions,
    },
    QueryRoute { path: "/calls", takes: filtered(&["limit", "cursor"], 0), answer: lists::calls },
    QueryRoute { path: "/tools", takes: filtered(&[], 0), answer: figures::tools },
    QueryRoute {
        path: "/argument_errors",
        takes: filtered(&[], 0),
        answer: figures::argument_errors,
    },
    QueryRoute { path: "/evaluators", takes: filtered(&[], 0), answer: figures::evaluators },
    QueryRoute {
        path: "/evaluators/{kind}/{name}",
        takes: filtered(&[], 0),
        answer: figures::evaluator,
    },
    QueryRoute { path: "/summary", takes: filtered(&["group_by"], 3), answer: summary::summary },
    QueryRoute { path: "/series", takes: filtered(&["group_by"], 1), answer: summary::series },
    QueryRoute { path: "/distribution", takes: filtered(&[], 0), answer: figures::distribution },
    QueryRoute { path: "/compare", takes: filtered(&["a", "b"], 0), answer: compare::compare },
    QueryRoute {
        path: "/annotations",
        takes: Takes { filter: false, others: &ANNOTATION_PARAMETERS, groups_max: 0 },
        answer: people::annotations,
    },
    QueryRoute { path: "/agreement", takes: filtered(&[], 0), answer: agreement::of_people },
    QueryRoute { path: "/datasets", takes: NOTHING, answer: people::datasets },
    QueryRoute {
        path: "/datasets/{dataset}",
        takes: Takes { filter: false, others: &["limit", "cursor"], groups_max: 0 },
        answer: people::dataset,
    },
    QueryRoute {
        path: "/datasets/{dataset}/items.jsonl",
        takes: NOTHING,
        answer: people::dataset_file,
    },
];

/// Formats a time, RFC 3339.
pub(crate) fn rfc3339(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("{time:.3}")
}
