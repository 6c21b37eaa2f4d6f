//! Annotations and datasets of people.

use serde::Serialize;
use serde_json::json;

use spanscore_store::query::{AnnotationFilter, DatasetItem, PagePlace, StoredPage};

use super::RouteQuery;
use crate::problem::ApiProblem;
use crate::readers::{ANSWER_BYTES_MAX, answer};

/// Rows of a file read at once.
const FILE_ROWS: usize = 50;

#[derive(Serialize)]
struct ItemsAnswer<'a> {
    dataset: &'a str,
    #[serde(flatten)]
    page: StoredPage<DatasetItem>,
    next: Option<String>,
}

pub(super) fn annotations(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let it = asking.question;
    let other = |name: &str| it.other(name).map(str::to_owned);
    let label = other("label");
    if let Some(label) = label.as_deref().filter(|it| !["pass", "fail"].contains(it)) {
        return Err(ApiProblem::word("label", label, &["pass", "fail"]));
    }
    let trace_id = other("trace_id");
    let is_id = |id: &String| id.chars().all(|digit| digit.is_ascii_hexdigit());
    if trace_id.as_ref().is_some_and(|id| !is_id(id)) {
        let text = "`trace_id` is the beginning of a trace id: write its hexadecimal digits";
        return Err(ApiProblem::value("trace_id", text));
    }
    let filter = AnnotationFilter {
        trace_id,
        label,
        author: other("author"),
        name: other("name"),
        evaluator: other("evaluator"),
        session_id: other("session_id"),
    };
    asking.page(asking.reader.annotations(&filter, it.after, it.limit)?)
}

pub(super) fn datasets(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    answer(&json!({"items": asking.reader.datasets()?}))
}

pub(super) fn dataset(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let it = asking.question;
    let page = items(asking, it.after, it.limit)?;
    let next = page.next.map(|place| it.cursor(place));
    answer(&ItemsAnswer { dataset: asking.question.named(), page, next })
}

/// Writes the rows of a file for `expect.file` in a config.
pub(super) fn dataset_file(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let mut text = String::new();
    let mut after = None;
    loop {
        let page = items(asking, after, FILE_ROWS)?;
        page.items.iter().for_each(|item| text.push_str(&format!("{}\n", item.row())));
        if text.len() > ANSWER_BYTES_MAX {
            let text = "the file would be over 8 MiB: `spanscore export dataset` writes it";
            return Err(ApiProblem::new(http::StatusCode::UNPROCESSABLE_ENTITY, "too_large", text));
        }
        after = page.next;
        if after.is_none() {
            return Ok(text.into_bytes());
        }
    }
}

fn items(
    asking: &RouteQuery<'_>,
    after: Option<PagePlace>,
    limit: usize,
) -> Result<StoredPage<DatasetItem>, ApiProblem> {
    let name = asking.question.named();
    let page = asking.reader.dataset_items(name, after, limit)?;
    if page.items.is_empty() && after.is_none() {
        return Err(ApiProblem::not_found(format!("there is no dataset `{name}`")));
    }
    Ok(page)
}
