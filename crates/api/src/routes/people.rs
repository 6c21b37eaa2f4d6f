//! Annotations and datasets, as people made them.

use serde::Serialize;

use spanscore_store::query::{AnnotationFilter, DatasetItem, DatasetRow};

use super::RouteQuery;
use crate::problem::ApiProblem;
use crate::readers::{ANSWER_BYTES_MAX, answer};

#[derive(Serialize)]
struct DatasetsAnswer {
    items: Vec<DatasetRow>,
}

#[derive(Serialize)]
struct ItemsAnswer<'a> {
    dataset: &'a str,
    items: Vec<DatasetItem>,
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
    };
    asking.page(asking.reader.annotations(&filter, it.after, it.limit)?)
}

pub(super) fn datasets(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    answer(&DatasetsAnswer { items: asking.reader.datasets()? })
}

pub(super) fn dataset(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let (dataset, items) = items(asking)?;
    answer(&ItemsAnswer { dataset, items })
}

/// Writes the rows of a file that `expect.file` of a config names.
pub(super) fn dataset_file(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let rows = items(asking)?.1;
    let text: String = rows.iter().map(|item| format!("{}\n", item.row())).collect();
    if text.len() > ANSWER_BYTES_MAX {
        let text = "the file would be over 8 MiB: `spanscore export dataset` writes it";
        return Err(ApiProblem::new(http::StatusCode::UNPROCESSABLE_ENTITY, "too_large", text));
    }
    Ok(text.into_bytes())
}

fn items<'a>(asking: &RouteQuery<'a>) -> Result<(&'a str, Vec<DatasetItem>), ApiProblem> {
    let name = asking.question.path.first().map_or("", String::as_str);
    let items = asking.reader.dataset_items(name)?;
    if items.is_empty() {
        return Err(ApiProblem::not_found(format!("there is no dataset `{name}`")));
    }
    Ok((name, items))
}
