//! Comparison of two versions or periods, each with its own filter.

use serde::Serialize;

use spanscore_store::query::{SideComparison, StoreFilter, StoreLosses};

use super::{RouteQuery, filtered};
use crate::problem::ApiProblem;
use crate::question::{ApiQuery, pairs};
use crate::readers::answer;

#[derive(Serialize)]
struct CompareAnswer<'a> {
    a: &'a str,
    b: &'a str,
    #[serde(flatten)]
    comparison: SideComparison,
    losses: StoreLosses,
}

pub(super) fn compare(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let question = asking.question;
    let a = side(question, "a")?;
    let b = side(question, "b")?;
    answer(&CompareAnswer {
        a: question.other("a").unwrap_or_default(),
        b: question.other("b").unwrap_or_default(),
        comparison: SideComparison::read(asking.reader, &a, &b)?,
        losses: asking.reader.losses()?,
    })
}

/// Reads the filter of a side: that of the request, overridden by the parameters of the side.
fn side(question: &ApiQuery, name: &str) -> Result<StoreFilter, ApiProblem> {
    let Some(text) = question.other(name) else {
        let detail = format!("`{name}` is missing: the filter of a side, such as `version=1.4.0`");
        return Err(ApiProblem::value(name, detail));
    };
    let own = pairs(text);
    let shared =
        question.filter_pairs.iter().filter(|(it, _)| own.iter().all(|(own, _)| own != it));
    let all: Vec<_> = shared.chain(&own).cloned().collect();
    Ok(ApiQuery::of_pairs(&all, filtered(&[], 0), question.now_ms)?.filter)
}
