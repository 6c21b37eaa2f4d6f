//! Report of traces, evaluators and cases without a judgement, with reasons: without it, missing
//! results would look like success.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::baseline::{and_more, named};
use super::tally::{OutcomeTally, Tallies};
use spanscore_base::model::{Evaluation, EvaluatorInfo, Level, Outcome, Reason, TraceId};
use spanscore_engine::batch::BatchCounts;
use spanscore_evaluate::engine::run::{Against, Configured, Evaluators};
use spanscore_evaluate::kind;

/// Limit on cases and traces named one by one.
const NAMED_MAX: usize = 5;

/// Evaluators and cases that occur in evaluations.
#[derive(Debug, Default)]
pub(in crate::cli) struct Heard {
    /// Evaluators with an answer.
    names: HashSet<String>,
    /// Addresses of the evaluations' `EvaluatorInfo`, one per case: cases with equal criteria
    /// differ in nothing else.
    asked: HashSet<usize>,
    /// Traces without an expectation, by evaluator.
    unexpected: HashMap<String, UnexpectedTraces>,
}

/// Traces for which an evaluator has no expectation.
#[derive(Debug, Default)]
struct UnexpectedTraces {
    count: usize,
    /// The first few.
    ids: Vec<TraceId>,
    /// Reason of one of them.
    why: String,
}

impl Heard {
    pub(in crate::cli) fn add(&mut self, evaluation: &Evaluation) {
        let name = &evaluation.evaluator.name;
        if !self.names.contains(name.as_str()) {
            self.names.insert(name.clone());
        }
        self.asked.insert(Arc::as_ptr(&evaluation.evaluator) as usize);
        if let Outcome::NotEvaluable { reason: Reason::NoExpectation, explanation } =
            &evaluation.outcome
        {
            let traces = self.unexpected.entry(name.clone()).or_default();
            traces.count += 1;
            if traces.ids.len() < NAMED_MAX {
                traces.ids.push(evaluation.target.trace_id);
            }
            traces.note(explanation);
        }
    }

    /// Returns true if a trace was judged against the case, or the turn, of this info.
    fn is_asked(&self, info: &Arc<EvaluatorInfo>) -> bool {
        self.asked.contains(&(Arc::as_ptr(info) as usize))
    }

    /// Adds the collection of another thread.
    pub(in crate::cli) fn merge(&mut self, other: Self) {
        self.names.extend(other.names);
        self.asked.extend(other.asked);
        for (name, more) in other.unexpected {
            let traces = self.unexpected.entry(name).or_default();
            traces.count += more.count;
            let room = NAMED_MAX.saturating_sub(traces.ids.len());
            traces.ids.extend(more.ids.into_iter().take(room));
            traces.note(&more.why);
        }
    }
}

impl UnexpectedTraces {
    /// Keeps the least of the reasons, so that the choice does not depend on threads.
    fn note(&mut self, why: &str) {
        if !why.is_empty() && (self.why.is_empty() || why < self.why.as_str()) {
            self.why = why.to_owned();
        }
    }
}

fn without_case(name: &str, traces: &UnexpectedTraces) -> String {
    let UnexpectedTraces { count, ids, .. } = traces;
    let noun = if *count == 1 { "trace" } else { "traces" };
    let tail = and_more(count.saturating_sub(ids.len()));
    let ids: Vec<String> = ids.iter().map(TraceId::to_string).collect();
    format!("{count} {noun} of which {name} expects nothing: {}{tail}", ids.join(", "))
}

/// Report of missing judgements.
#[derive(Debug, Default)]
pub(in crate::cli) struct Silence {
    /// Evaluators without an answer, each with the reason.
    pub evaluators: Vec<String>,
    /// Datasets with cases that no trace named.
    pub cases: Vec<String>,
    /// Evaluators with traces that match no case of their dataset.
    pub unexpected: Vec<String>,
    /// Traces without an agent.
    pub traces: Vec<String>,
    /// Reasons why expectations of the config were not tested.
    pub(super) untested: Vec<String>,
    /// Remark that there are evaluations but no scores.
    pub(super) unscored: Option<String>,
    /// True without any trace, which explains evaluators without an answer.
    pub is_without_traces: bool,
}

impl Silence {
    /// Finds missing judgements.
    pub(in crate::cli) fn of(evaluators: &Evaluators, heard: &Heard, counts: &BatchCounts) -> Self {
        let is_without_traces = counts.judged_traces == 0 && counts.without_agent.is_empty();
        let mut silence = Self { is_without_traces, ..Self::default() };
        for (index, configured) in evaluators.evaluators().iter().enumerate() {
            let name = &configured.info.name;
            if !heard.names.contains(name.as_str()) {
                let errors = counts.when_errors.iter().filter(|at| **at == index).count();
                let why = reason(configured, counts.judged_traces, errors);
                silence.evaluators.push(format!("{name}: {why}"));
            }
            silence.cases.extend(unnamed_cases(configured, heard));
            if let Some(unexpected) = heard.unexpected.get(name.as_str()) {
                silence.unexpected.push(without_case(name, unexpected));
            }
        }
        if !counts.without_agent.is_empty() {
            silence.traces.push(without_agent(&counts.without_agent));
        }
        silence
    }

    /// Adds untested parts: expectations without a score, datasets without a named case.
    pub(super) fn add_untested(
        &mut self,
        evaluators: &Evaluators,
        heard: &Heard,
        tallies: &Tallies,
    ) {
        let count = tallies.all.count();
        if count == 0 {
            return;
        }
        let all = evaluators.evaluators();
        let unnamed = all.iter().filter(|it| names_no_case(it, heard));
        let unnamed = unnamed.map(|it| {
            let name = it.info.name.as_str();
            let why = heard.unexpected.get(name).map_or("", |traces| &traces.why);
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            format!("no trace names a case of {name}{why}")
        });
        self.untested.extend(unnamed);
        let expecting: Vec<&str> =
            all.iter().filter(|it| expects(it)).map(|it| it.info.name.as_str()).collect();
        let is_answered = |name: &&str| tallies.of(name).is_some_and(OutcomeTally::is_answered);
        if self.untested.is_empty() && !expecting.is_empty() && !expecting.iter().any(is_answered) {
            let names = listed(expecting.iter().map(|name| (*name).to_owned()));
            self.untested.push(format!("nothing that the config expects was scored ({names})"));
        }
        if !tallies.all.is_answered() {
            let them = if count == 1 { "the one evaluation is" } else { "no evaluation is" };
            let tail = if count == 1 { "not evaluable" } else { "evaluable" };
            self.unscored = Some(format!("nothing was scored: {them} {tail}"));
        }
    }

    /// Formats the report, one line each.
    pub(in crate::cli) fn lines(&self) -> impl Iterator<Item = String> {
        let evaluators = if self.is_without_traces { &[][..] } else { &self.evaluators };
        let all = evaluators.iter().chain(&self.cases).chain(&self.unexpected);
        let all = all.chain(&self.traces).chain(&self.unscored);
        all.map(|what| format!("not judged: {what}"))
    }
}

/// Returns true if an evaluator has expectations from the config or a dataset.
fn expects(configured: &Configured) -> bool {
    matches!(configured.against, Against::Expectations(_))
        || kind(configured.info.kind).is_some_and(|kind| kind.needs_criteria)
}

/// Returns true if no trace named a case of an evaluator's dataset, though its `when` selected
/// some.
fn names_no_case(configured: &Configured, heard: &Heard) -> bool {
    let Against::Expectations(expectations) = &configured.against else { return false };
    if configured.when.is_some() && !heard.names.contains(&configured.info.name) {
        return false;
    }
    let mut cases = expectations.cases().chain(expectations.turns()).peekable();
    cases.peek().is_some() && !cases.any(|(_, info)| heard.is_asked(info))
}

/// Explains the missing answers of an evaluator.
fn reason(configured: &Configured, traces: usize, errors: usize) -> String {
    let of = match traces {
        0 => return "no trace holds an agent".to_owned(),
        1 => "the one trace".to_owned(),
        count => format!("{count} traces"),
    };
    if errors > 0 {
        return format!(
            "its `when` could not be evaluated, or gave no truth value, for {errors} of {of}"
        );
    }
    if configured.when.is_some() {
        let mut why = format!("its `when` selects none of {of}");
        if configured.sample < 1.0 {
            why.push_str(", or its `sample` leaves out those that it does");
        }
        return why;
    }
    if configured.sample < 1.0 {
        return format!("its `sample` leaves out {of}");
    }
    match configured.info.level {
        Level::Session => format!("it judges sessions, and none of {of} names one"),
        Level::Call => format!("it judges calls, and none of {of} holds one that it sees"),
        Level::Trace => format!("it judged none of {of}"),
    }
}

/// Lists the cases of an evaluator's dataset that no trace named.
fn unnamed_cases(configured: &Configured, heard: &Heard) -> Option<String> {
    let Against::Expectations(expectations) = &configured.against else { return None };
    let cases = || expectations.cases().chain(expectations.turns());
    let asked = cases().filter(|(_, info)| heard.is_asked(info));
    let asked: HashSet<&str> = asked.map(|(case, _)| case).collect();
    let all: BTreeSet<&str> = cases().map(|(case, _)| case).collect();
    let unnamed: Vec<&str> = all.iter().copied().filter(|case| !asked.contains(case)).collect();
    if unnamed.is_empty() {
        return None;
    }
    let named = listed(unnamed.iter().map(|case| format!("`{case}`")));
    let count = unnamed.len();
    let all = all.len();
    let name = &configured.info.name;
    Some(format!("{count} of {all} cases of the dataset of {name}, that no trace named: {named}"))
}

fn without_agent(traces: &[TraceId]) -> String {
    let ids = listed(traces.iter().map(TraceId::to_string));
    let (noun, holds) = if traces.len() == 1 { ("trace", "holds") } else { ("traces", "hold") };
    format!(
        "{} {noun} that {holds} no span of a tool, an agent or a model (`inspect --explain` shows \
         why): {ids}",
        traces.len()
    )
}

/// Lists the first few, then the number of others.
fn listed(all: impl ExactSizeIterator<Item = String>) -> String {
    named(all, NAMED_MAX)
}
