//! Labelled runs of a store: evaluations that people judged, with the runs that they are of.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::runs::NumberedRun;
use crate::cli::stored::pages;
use crate::cli::{CommandError, misused, output};
use spanscore_base::model::Level;
use spanscore_base::value::{Map, Value};
use spanscore_engine::call_rows;
use spanscore_evaluate::engine::run::Configured;
use spanscore_evaluate::judged::labelled::LabelledRun;
use spanscore_store::query::{
    LABELS_MAX, PersonLabel, RestoredRun, StoreField, StoreFilter, StoreReader,
};
use spanscore_store::{StoredGap, StoredPart};

/// Runs that are read at once.
const PAGE: usize = 50;

/// Number of labelled runs that are left out, by reason.
type LeftOutLabels = BTreeMap<String, usize>;

/// Reads the runs of a store whose evaluation by this evaluator people labelled `pass` or `fail`.
/// The majority counts if they differ; without one the run is left out, which is told on standard
/// error.
///
/// # Errors
/// The evaluator judges no runs, the store cannot be read, or it holds no such label.
pub(super) fn read(path: &Path, of: &Configured) -> Result<Vec<NumberedRun>, CommandError> {
    let name = &of.info.name;
    if of.info.level != Level::Trace {
        return misused(format!("--store: `{name}` judges calls or sessions: use --data"));
    }
    let reader = StoreReader::open(path).map_err(anyhow::Error::new)?;
    let mut filter = StoreFilter::default();
    filter.add(StoreField::Evaluator, name.as_str());
    let labels = reader.labels(&filter).map_err(anyhow::Error::new)?;
    let mut left_out = LeftOutLabels::new();
    if labels.len() == LABELS_MAX {
        output::note(format_args!("spanscore: only the newest {LABELS_MAX} labels are read"));
    }
    let verdicts = majorities(&labels, &mut left_out);
    let mut runs = Vec::new();
    filter.add(StoreField::Annotated, "yes");
    pages(
        |after| reader.restored_runs(&filter, after, PAGE),
        |run| {
            let Some(verdict) = verdicts.get(&run.trace_id.to_string()) else { return Ok(()) };
            match labelled(&run, verdict, of) {
                Ok(run) => runs.push((runs.len() + 1, run)),
                Err(reason) => *left_out.entry(reason).or_default() += 1,
            }
            Ok(())
        },
    )?;
    for (reason, count) in &left_out {
        output::note(format_args!("spanscore: {count} labelled runs are left out: {reason}"));
    }
    if runs.is_empty() {
        let text = format!(
            "the store has no run to measure `{name}` by: on the pages, say pass or fail of its \
             evaluations"
        );
        return Err(anyhow::anyhow!(text).into());
    }
    Ok(runs)
}

/// Returns the label of each trace that most people gave its evaluations; of each person the first
/// of the labels, the newest, counts.
fn majorities(
    labels: &[PersonLabel],
    left_out: &mut LeftOutLabels,
) -> BTreeMap<String, &'static str> {
    let mut votes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut heard = BTreeSet::new();
    for it in labels.iter().filter(|it| heard.insert((&it.trace_id, &it.author))) {
        let (passes, fails) = votes.entry(&it.trace_id).or_default();
        *if it.label == "pass" { passes } else { fails } += 1;
    }
    let mut verdicts = BTreeMap::new();
    for (trace_id, (passes, fails)) in votes {
        if passes == fails {
            *left_out.entry("as many people say pass as fail".to_owned()).or_default() += 1;
        } else {
            let verdict = if passes > fails { "pass" } else { "fail" };
            verdicts.insert(trace_id.to_owned(), verdict);
        }
    }
    verdicts
}

/// Builds a labelled run; the error is the reason why it cannot be measured by. Texts in which
/// redaction replaced a value stay: people judged by them, too.
fn labelled(run: &RestoredRun, verdict: &str, of: &Configured) -> Result<LabelledRun, String> {
    let facts = of.facts();
    let read = [
        (StoredPart::Input, facts.user_input),
        (StoredPart::Output, facts.final_output),
        (StoredPart::Arguments, facts.arguments),
        (StoredPart::Results, facts.results),
    ];
    for (part, _) in read.into_iter().filter(|(_, is_read)| *is_read) {
        if let Some(gap) = run.gap(part).filter(|gap| *gap != StoredGap::Redacted) {
            return Err(format!("{}: {}", part.as_str(), gap.as_str()));
        }
    }
    let trajectory = run.trajectory(u64::MAX).map_err(str::to_owned)?;
    let mut label = Map::new();
    label.insert("verdict", verdict.to_owned());
    let mut line = Map::new();
    line.insert("id", run.trace_id.to_string());
    line.insert("evaluator", of.info.kind.to_owned());
    line.insert("label", Value::Map(label));
    line.insert("trajectory", call_rows::row(&trajectory).into_owned());
    LabelledRun::of(Value::Map(line)).map_err(|error| error.to_string())
}
