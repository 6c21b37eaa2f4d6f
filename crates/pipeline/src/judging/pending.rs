//! Traces with open judge answers, for tail-sampling forwards.
//!
//! A trace that fails by an evaluator without a judge is reported at once. Others are reported
//! after the last judge's answer, since a `fail` may come before that.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

use spanscore_base::model::evaluation::Label;
use spanscore_base::model::{Evaluation, TraceId};
use spanscore_emit::forward::{Forwards, JudgedTrace};
use spanscore_evaluate::AskedTarget;

/// Limit on pending traces; others are reported at once by the known verdicts.
const TRACES_MAX: usize = 100_000;

/// Open inquiries by trace.
pub(crate) struct PendingTraces {
    forwards: Arc<Forwards>,
    traces: Mutex<HashMap<TraceId, PendingTrace>>,
}

/// Evaluators with unanswered judges. A set, since a revision asks the same ones again.
#[derive(Default)]
struct PendingTrace {
    evaluators: HashSet<String>,
    has_fail: bool,
}

impl PendingTraces {
    pub(super) fn new(forwards: Arc<Forwards>) -> Self {
        Self { forwards, traces: Mutex::default() }
    }

    /// Registers the inquiries of a trace; returns false beyond the limit.
    pub(crate) fn expect(&self, trace_id: TraceId, asked: &[AskedTarget]) -> bool {
        let mut traces = self.traces.lock();
        if traces.len() >= TRACES_MAX && !traces.contains_key(&trace_id) {
            return false;
        }
        let names = asked.iter().map(|asked| asked.evaluator().to_owned());
        traces.entry(trace_id).or_default().evaluators.extend(names);
        true
    }

    /// Takes in the evaluations of an inquiry; reports the trace after the last one.
    pub(super) fn told(&self, evaluations: &[Evaluation]) {
        let Some(first) = evaluations.first() else { return };
        let sender = first.target.sender;
        let trace_id = sender.group.key(first.target.trace_id);
        let mut traces = self.traces.lock();
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
        self.forwards.judged(JudgedTrace { trace_id, sender, is_agent: true, has_fail });
    }
}
