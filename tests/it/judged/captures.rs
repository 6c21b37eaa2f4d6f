//! Savings by literal grounding on the traces of running frameworks.

use std::sync::Arc;

use spanscore_base::model::{Facts, Trajectory};
use spanscore_base::value::Map;
use spanscore_evaluate::inquiry::Inquired;
use spanscore_evaluate::judged::labelled::LabelledRun;
use spanscore_evaluate::{Evaluator, Want};
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{Resolver, Table};

use super::{CALIBRATION, evaluator, items, room, silent};
use crate::captures::{captures, traces};

/// Counts over some runs.
#[derive(Debug, Default, PartialEq)]
struct Saved {
    runs: usize,
    runs_asked: usize,
    calls: usize,
    calls_asked: usize,
    /// Tokens of the requests, were every call asked about.
    tokens_before: usize,
    tokens_after: usize,
}

fn tokens(evaluator: &Evaluator, trajectory: &Trajectory<'_>) -> Option<(usize, usize)> {
    let judged = evaluator.as_judged().unwrap();
    let Inquired::Asked(inquiry) = judged.inquire(trajectory, 0.8, Want::ALL) else {
        return None;
    };
    let prompt = inquiry.prompt(&room()).ok()?;
    let by_code = items(&inquiry.conclude(&room(), &[silent(&prompt)]));
    let asked = by_code.iter().filter(|(_, by_code)| !by_code).count();
    Some(((prompt.system.len() + prompt.user.len()) * 2 / 7, asked))
}

impl Saved {
    fn add(&mut self, trajectory: &Trajectory<'_>) {
        let mut dokimos = Map::new();
        dokimos.insert("compat", "dokimos");
        let kind = "tool_argument_hallucination";
        let (ours, all) = (evaluator(kind, Map::new()), evaluator(kind, dokimos));
        let asks_ours = ours.as_judged().unwrap().inquire(trajectory, 0.8, Want::ALL);
        let is_known = match &asks_ours {
            Inquired::Known(known) if known.calls.is_empty() => return,
            Inquired::Known(_) => true,
            _ => false,
        };
        let Some((before, _)) = tokens(&all, trajectory) else { return };
        self.runs += 1;
        self.calls += trajectory.tool_calls.len();
        self.tokens_before += before;
        if !is_known && let Some((after, asked)) = tokens(&ours, trajectory) {
            self.runs_asked += 1;
            self.calls_asked += asked;
            self.tokens_after += after;
        }
    }
}

#[test]
fn literal_grounding_settles_calls_without_a_request() {
    let facts = evaluator("tool_argument_hallucination", Map::new()).facts();
    let facts = Facts::all().union(&facts);
    let table = Table::compile(Dialect::with_builtin(Vec::new()), &facts).unwrap();
    let resolver = Resolver::new(Arc::new(table));
    let mut recorded = Saved::default();
    for capture in captures() {
        for trace in traces(&resolver, &capture.requests) {
            recorded.add(&resolver.resolve(&trace));
        }
    }
    let mut labelled = Saved::default();
    for line in CALIBRATION.lines() {
        labelled.add(&LabelledRun::read(line).unwrap().trajectory().unwrap());
    }
    insta::assert_debug_snapshot!((recorded, labelled));
}
