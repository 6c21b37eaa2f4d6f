//! What was not judged, and why: silence is an answer that nobody understands.

use std::sync::Arc;

use hashbrown::HashSet;

use crate::evaluate::engine::run::{Against, Configured, Evaluators};
use crate::model::{Evaluation, Level, TraceId};
use crate::pipeline::replay::Judgement;

/// Cases of a dataset, and traces, that are named one by one.
const NAMED_MAX: usize = 5;

/// What was not judged.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Evaluators that gave no answer, each with the reason.
    pub evaluators: Vec<String>,
    /// Datasets with cases that no trace named.
    pub cases: Vec<String>,
    /// Traces that hold no agent.
    pub traces: Vec<String>,
}

impl Silence {
    /// Finds what was not judged.
    pub(super) fn of(evaluators: &Evaluators, judgement: &Judgement) -> Self {
        let mut silence = Self::default();
        for (index, configured) in evaluators.evaluators().iter().enumerate() {
            let answers = judgement.evaluations.iter();
            let own: Vec<&Evaluation> =
                answers.filter(|it| it.evaluator.name == configured.info.name).collect();
            if own.is_empty() {
                let errors = judgement.when_errors.iter().filter(|at| **at == index).count();
                let why = reason(configured, judgement.judged_traces, errors);
                silence.evaluators.push(format!("{}: {why}", configured.info.name));
            }
            silence.cases.extend(unnamed_cases(configured, &own));
        }
        if !judgement.without_agent.is_empty() {
            silence.traces.push(without_agent(&judgement.without_agent));
        }
        silence
    }

    /// All of it, a line each.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let all = self.evaluators.iter().chain(&self.cases).chain(&self.traces);
        all.map(|what| format!("not judged: {what}"))
    }
}

/// Why an evaluator gave no answer at all.
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

/// The cases of an evaluator's dataset that no trace named.
fn unnamed_cases(configured: &Configured, answers: &[&Evaluation]) -> Option<String> {
    let Against::Expectations(expectations) = &configured.against else { return None };
    // Cases with the same criteria are told apart by where they are held.
    let asked: HashSet<_> = answers.iter().map(|it| Arc::as_ptr(&it.evaluator)).collect();
    let cases = || expectations.cases();
    let mut unnamed: Vec<&str> = cases()
        .filter(|(_, info)| !asked.contains(&Arc::as_ptr(info)))
        .map(|(case, _)| case)
        .collect();
    unnamed.sort_unstable();
    if unnamed.is_empty() {
        return None;
    }
    let named = listed(unnamed.iter().map(|case| format!("`{case}`")));
    let (count, all, name) = (unnamed.len(), cases().count(), &configured.info.name);
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

/// The first few, then how many more.
fn listed(all: impl ExactSizeIterator<Item = String>) -> String {
    let more = all.len().saturating_sub(NAMED_MAX);
    let mut text = all.take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
