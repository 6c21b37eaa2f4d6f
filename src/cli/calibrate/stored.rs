//! Labelled runs from a store: evaluations that people judged, with their runs, calls and sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::runs::NumberedRun;
use crate::cli::stored::{paged, pages};
use crate::cli::{CommandError, output};
use crate::config::Config;
use spanscore_assemble::SessionKeyFields;
use spanscore_base::model::{Level, Trajectory};
use spanscore_base::value::{Map, Value};
use spanscore_engine::call_rows;
use spanscore_evaluate::engine::run::Configured;
use spanscore_evaluate::judged::labelled::LabelledRun;
use spanscore_store::query::{
    LABELS_MAX, PersonLabel, RestoredRun, StoreField, StoreFilter, StoreReader,
};
use spanscore_store::{StoredGap, StoredPart};

/// Runs read at once.
const PAGE: usize = 50;
/// Limit on runs of a labelled session; one with more is skipped.
const SESSION_RUNS_MAX: usize = 500;

/// Number of skipped labels, by reason.
type LeftOutLabels = BTreeMap<String, usize>;

/// Labels on one run.
#[derive(Default)]
struct RunLabels {
    /// Label of the run itself, or of the session that it ends.
    own: Option<&'static str>,
    /// Labels of its calls, by evaluation id.
    calls: BTreeMap<String, &'static str>,
}

/// Store whose labels measure an evaluator.
struct LabelledStore<'c> {
    reader: StoreReader,
    of: &'c Configured,
    sessions: SessionKeyFields,
    /// Step limit for judging a run.
    steps: u64,
}

/// Reads the stored runs, or sessions, whose evaluation by this evaluator people labelled `pass` or
/// `fail`, and those with labelled calls. The majority counts; a label without one is skipped, with
/// a note on standard error.
///
/// # Errors
/// A store that cannot be read, or that has no such label.
pub(super) fn read(
    path: &Path,
    of: &Configured,
    config: &Config,
) -> Result<Vec<NumberedRun>, CommandError> {
    let name = &of.info.name;
    let reader = StoreReader::open(path).map_err(anyhow::Error::new)?;
    let steps = u64::from(config.limits.trace_steps);
    let store = LabelledStore { reader, of, sessions: config.sessions.key, steps };
    let mut filter = StoreFilter::default();
    filter.add(StoreField::Evaluator, name.as_str());
    let labels = store.reader.labels(&filter).map_err(anyhow::Error::new)?;
    let mut left_out = LeftOutLabels::new();
    if labels.len() == LABELS_MAX {
        output::note(format_args!("spanscore: only the newest {LABELS_MAX} labels are read"));
    }
    let by_run = majorities(&labels, of.info.level, &mut left_out);
    let mut runs = Vec::new();
    filter.add(StoreField::Annotated, "yes");
    pages(
        |after| store.reader.restored_runs(&filter, after, PAGE),
        |run| {
            let Some(labels) = by_run.get(&run.trace_id.to_string()) else { return Ok(()) };
            match store.labelled(&run, labels)? {
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

/// Returns the majority label of each run; per person the first label on an evaluation, the newest,
/// counts.
fn majorities(
    labels: &[PersonLabel],
    level: Level,
    left_out: &mut LeftOutLabels,
) -> BTreeMap<String, RunLabels> {
    let mut votes: BTreeMap<_, (usize, usize)> = BTreeMap::new();
    let mut heard = BTreeSet::new();
    for it in labels {
        let of_call = it.level.filter(|of| *of == Level::Call).and(it.evaluation_id.as_ref());
        if of_call.is_none() && it.level != Some(level) {
            continue;
        }
        let subject = (&it.trace_id, of_call);
        if heard.insert((subject, &it.author)) {
            let (passes, fails) = votes.entry(subject).or_default();
            *if it.label == "pass" { passes } else { fails } += 1;
        }
    }
    let mut by_run: BTreeMap<String, RunLabels> = BTreeMap::new();
    for ((trace_id, of_call), (passes, fails)) in votes {
        if passes == fails {
            *left_out.entry("as many people say pass as fail".to_owned()).or_default() += 1;
            continue;
        }
        let verdict = if passes > fails { "pass" } else { "fail" };
        let labels = by_run.entry(trace_id.clone()).or_default();
        match of_call {
            None => labels.own = Some(verdict),
            Some(id) => {
                labels.calls.insert(id.clone(), verdict);
            }
        }
    }
    by_run
}

impl LabelledStore<'_> {
    /// Builds a labelled run, or session; the error is the reason why it is unusable.
    fn labelled(
        &self,
        run: &RestoredRun,
        labels: &RunLabels,
    ) -> Result<Result<LabelledRun, String>, CommandError> {
        if self.of.info.level != Level::Session {
            return Ok(self.run(run).and_then(|trajectory| self.line(run, &[trajectory], labels)));
        }
        let last = match self.run(run) {
            Ok(last) => last,
            Err(reason) => return Ok(Err(reason)),
        };
        let turns = self.session(&last)?;
        let turns = turns.map_err(str::to_owned).and_then(|turns| {
            let read = turns.iter().map(|turn| self.run(turn)).collect::<Result<Vec<_>, _>>()?;
            let mut read: Vec<_> = read.into_iter().filter(|it| self.precedes(it, &last)).collect();
            read.sort_by_key(|turn| turn.start_ns);
            self.line(run, &read, labels)
        });
        Ok(turns)
    }

    /// Reads the runs of the same session as a run; the error is the reason why there are none.
    fn session(
        &self,
        last: &Trajectory<'_>,
    ) -> Result<Result<Vec<RestoredRun>, &'static str>, CommandError> {
        let Some(id) = last.session_id.as_deref() else { return Ok(Err("the run has no session")) };
        let mut filter = StoreFilter::default();
        filter.add(StoreField::SessionId, id);
        let turns = paged(|after| self.reader.restored_runs(&filter, after, PAGE));
        let turns = turns.take(SESSION_RUNS_MAX + 1).collect::<Result<Vec<_>, _>>()?;
        if turns.len() > SESSION_RUNS_MAX {
            return Ok(Err("its session has too many runs"));
        }
        Ok(Ok(turns))
    }

    /// Returns true for a turn of the session that a run ends.
    fn precedes(&self, turn: &Trajectory<'_>, last: &Trajectory<'_>) -> bool {
        turn.start_ns <= last.start_ns && self.sessions.of(turn) == self.sessions.of(last)
    }

    /// Builds the trajectory of a run; the error is the reason why it is unusable. Redacted texts
    /// stay, since people judged by them too.
    fn run<'r>(&self, run: &'r RestoredRun) -> Result<Trajectory<'r>, String> {
        let facts = self.of.facts();
        let read = [
            (StoredPart::Input, facts.user_input),
            (StoredPart::Output, facts.final_output),
            (StoredPart::Arguments, facts.arguments),
            (StoredPart::Results, facts.results),
        ];
        for (part, _) in read.into_iter().filter(|(_, is_read)| *is_read) {
            if let Some(gap) = run.gap(part).filter(|gap| *gap != StoredGap::Redacted) {
                return Err(format!("{}: {}", part.as_str(), gap.explained()));
            }
        }
        run.trajectory(self.steps).map_err(str::to_owned)
    }

    /// Writes a labelled run with its turns.
    fn line(
        &self,
        run: &RestoredRun,
        turns: &[Trajectory<'_>],
        labels: &RunLabels,
    ) -> Result<LabelledRun, String> {
        let mut label = Map::new();
        if let Some(verdict) = labels.own {
            label.insert("verdict", verdict.to_owned());
        }
        let mut line = Map::new();
        let rows = turns.iter().map(|turn| call_rows::row(turn).into_owned());
        if self.of.info.level == Level::Session {
            line.insert("session", Value::List(rows.collect()));
        } else {
            let calls = self.of_calls(run, turns, labels);
            if !calls.is_empty() {
                label.insert("calls", Value::List(calls));
            }
            line.insert("trajectory", rows.last().unwrap_or_default());
        }
        if label.is_empty() {
            return Err("the evaluation was replaced, or is of a call of a session".to_owned());
        }
        line.insert("id", run.trace_id.to_string());
        line.insert("evaluator", self.of.info.kind.to_owned());
        line.insert("label", Value::Map(label));
        LabelledRun::of(Value::Map(line)).map_err(|error| error.to_string())
    }

    /// Returns the labels of a run's calls, by index; empty without any. Calls on one span are
    /// matched with their verdicts in order.
    fn of_calls(
        &self,
        run: &RestoredRun,
        turns: &[Trajectory<'_>],
        labels: &RunLabels,
    ) -> Vec<Value<'static>> {
        let name = &self.of.info.name;
        let mut verdicts: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for it in run.verdicts.iter().filter(|it| it.is_of_call && it.evaluator == *name).rev() {
            verdicts.entry(it.span_id.0).or_default().push(it.id.to_string());
        }
        let calls = turns.iter().flat_map(|turn| &turn.tool_calls);
        let ids = calls.map(|call| verdicts.get_mut(&call.span_id.0).and_then(Vec::pop));
        let said = ids.map(|id| labels.calls.get(&id?).copied());
        let said: Vec<Option<&str>> = said.collect();
        let is_said = said.iter().any(|it| it.is_some());
        said.into_iter().filter(|_| is_said).map(|it| it.map(str::to_owned).into()).collect()
    }
}
