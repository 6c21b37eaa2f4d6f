//! Traces that forwards choose by their verdicts, while judges still have to say theirs.
//!
//! A trace with a `fail` of an evaluator that asks nobody is chosen at once. All others are told of
//! when the last of their judges has answered: before that nobody knows that none of them fails.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{HashMap, HashSet};

use crate::emit::forward::{Forwards, JudgedTrace};
use crate::evaluate::AskedTarget;
use crate::model::evaluation::Label;
use crate::model::{Evaluation, TraceId};

/// Traces that are waited for at most; of more, what is known at once decides.
const TRACES_MAX: usize = 100_000;

/// What is waited for, by trace.
pub(in crate::pipeline) struct PendingTraces {
    forwards: Arc<Forwards>,
    traces: Mutex<HashMap<TraceId, PendingTrace>>,
}

/// The evaluators whose judges have not answered. A revision asks the same ones again.
#[derive(Default)]
struct PendingTrace {
    evaluators: HashSet<String>,
    has_fail: bool,
}

impl PendingTraces {
    pub(super) fn new(forwards: Arc<Forwards>) -> Self {
        Self { forwards, traces: Mutex::default() }
    }

    /// Waits for the judges of a trace; whether it does.
    pub(in crate::pipeline) fn expect(&self, trace_id: TraceId, asked: &[AskedTarget]) -> bool {
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        if traces.len() >= TRACES_MAX && !traces.contains_key(&trace_id) {
            return false;
        }
        let names = asked.iter().map(|asked| asked.evaluator().to_owned());
        traces.entry(trace_id).or_default().evaluators.extend(names);
        true
    }

    /// A judge has answered, or will not.
    pub(super) fn told(&self, evaluations: &[Evaluation]) {
        let Some(first) = evaluations.first() else { return };
        let trace_id = first.target.trace_id;
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pending) = traces.get_mut(&trace_id) else { return };
        if !pending.evaluators.remove(&first.evaluator.name) {
            return;
        }
        pending.has_fail |= evaluations.iter().any(|one| one.label() == Some(Label::Fail));
        if !pending.evaluators.is_empty() {
            return;
        }
        let has_fail = pending.has_fail;
        traces.remove(&trace_id);
        drop(traces);
        self.forwards.judged(JudgedTrace { trace_id, is_agent: true, has_fail });
    }
}
