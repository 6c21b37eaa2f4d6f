//! Figures of evaluators and tools, and the histogram of scores.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use spanscore_base::statistics::Share;
use spanscore_store::query::{GroupFigures, ReasonCount, StoreField};

use super::RouteQuery;
use crate::problem::ApiProblem;
use crate::readers::answer;

/// List of figures.
#[derive(Serialize)]
struct ItemList<T> {
    items: Vec<T>,
}

#[derive(Serialize)]
struct EvaluatorItem<'a> {
    evaluator: &'a str,
    kind: &'a str,
    level: &'a str,
    versions: usize,
    #[serde(flatten)]
    figures: GroupFigures,
}

pub(super) fn evaluators(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let filter = &asking.question.filter;
    let by = [StoreField::Evaluator, StoreField::Kind, StoreField::Level];
    let groups = asking.reader.groups(filter, &by)?;
    let by = [StoreField::Evaluator, StoreField::EvaluatorVersion];
    let mut versions: BTreeMap<String, usize> = BTreeMap::new();
    for group in asking.reader.groups(filter, &by)? {
        *versions.entry(group.keys[0].clone()).or_default() += 1;
    }
    let items = groups.iter().map(|group| {
        let [evaluator, kind, level] = [0, 1, 2].map(|at| group.keys[at].as_str());
        let versions = versions.get(evaluator).copied().unwrap_or_default();
        EvaluatorItem { evaluator, kind, level, versions, figures: GroupFigures::new(group) }
    });
    answer(&ItemList { items: items.collect() })
}

#[derive(Serialize)]
struct EvaluatorAnswer<'a> {
    evaluator: &'a str,
    kind: &'a str,
    level: &'a str,
    figures: GroupFigures,
    versions: Vec<VersionItem<'a>>,
    reasons: Vec<ReasonCount>,
}

#[derive(Serialize)]
struct VersionItem<'a> {
    evaluator_version: &'a str,
    own_version: Option<&'a str>,
    threshold: f64,
    #[serde(flatten)]
    figures: GroupFigures,
}

pub(super) fn evaluator(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let mut name = asking.question.path.join("/");
    let mut known = asking.reader.evaluator_versions(&name)?;
    if let ([kind, again], true) = (&asking.question.path[..], known.is_empty())
        && kind == again
    {
        // An evaluator without a name.
        name.clone_from(kind);
        known = asking.reader.evaluator_versions(&name)?;
    }
    let Some(last) = known.last() else {
        return Err(ApiProblem::not_found(format!("the store knows no evaluator `{name}`")));
    };
    let mut filter = asking.question.filter.clone();
    filter.add(StoreField::Evaluator, name.as_str());
    let all = asking.reader.groups(&filter, &[])?;
    let groups = asking.reader.groups(&filter, &[StoreField::EvaluatorVersion])?;
    let versions = known.iter().map(|version| {
        let group = groups.iter().find(|group| group.keys[0] == version.version);
        VersionItem {
            evaluator_version: &version.version,
            own_version: version.own_version.as_deref(),
            threshold: version.threshold,
            figures: group.map(GroupFigures::new).unwrap_or_default(),
        }
    });
    answer(&EvaluatorAnswer {
        evaluator: &name,
        kind: &last.kind,
        level: &last.level,
        figures: GroupFigures::of_all(&all),
        versions: versions.collect(),
        reasons: asking.reader.reasons(&filter)?,
    })
}

pub(super) fn tools(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let tools = asking.reader.tools(&asking.question.filter)?;
    let items = tools.iter().map(|it| {
        let errors = Share::new(it.errors, it.calls);
        json!({
            "tool": it.tool,
            "calls": it.calls,
            "errors": it.errors,
            "error_rate": errors.rate(),
            "error_interval": errors.interval(),
            "undeclared": it.undeclared,
            "p50_s": it.percentile(0.5),
            "p95_s": it.percentile(0.95),
        })
    });
    answer(&json!({"items": items.collect::<Value>(), "approximate": true}))
}

pub(super) fn argument_errors(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let items = asking.reader.argument_errors(&asking.question.filter)?;
    answer(&ItemList { items })
}

pub(super) fn distribution(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let filter = &asking.question.filter;
    let counts = asking.reader.score_bins(filter)?;
    let last = counts.len() - 1;
    let bins = counts.iter().enumerate().map(|(at, &count)| {
        // The first and the last are exactly 0 and 1, those between are a twentieth wide.
        let bound = |twentieths: usize| twentieths as f64 / 20.0;
        let (from, to) = match at {
            0 => (0.0, 0.0),
            _ if at == last => (1.0, 1.0),
            _ => (bound(at - 1), bound(at)),
        };
        json!({"from": from, "to": to, "count": count})
    });
    answer(&json!({
        "bins": bins.collect::<Value>(),
        "figures": GroupFigures::of_all(&asking.reader.groups(filter, &[])?),
        "from_sums": asking.reader.has_sums(filter, &[]),
    }))
}
