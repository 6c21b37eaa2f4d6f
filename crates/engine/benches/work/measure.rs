//! One trace through extracting, reading and judging.

use std::sync::Arc;

use spanscore_base::model::{Completion, SpanBatch, TraceSpans, Want, WorkBudget};
use spanscore_base::otlp::Signal;
use spanscore_evaluate::engine::run::{Evaluators, Evidence};
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{Resolver, Table, extract};

use super::evaluators::Case;

/// Cost of a trace.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    /// Processor time of extracting, milliseconds.
    pub(crate) extract_ms: f64,
    /// Processor time of reading and judging, milliseconds.
    pub(crate) judge_ms: f64,
    /// Steps of reading and judging.
    pub(crate) steps: u64,
}

impl Measured {
    /// Nanoseconds of reading and judging a step.
    pub(crate) fn step_ns(self) -> f64 {
        self.judge_ms * 1e6 / self.steps.max(1) as f64
    }
}

/// Takes a request that holds one trace through all stages that judge, with that many steps or the
/// default's; judges it twice, and tells of the second time.
pub(crate) fn measure(case: &Case, request: &[u8], steps: Option<u64>) -> Measured {
    let evaluators = Evaluators::new(case.evaluators(), Want::ALL);
    let dialects = Dialect::with_builtin(Vec::new());
    let table = Arc::new(Table::compile(dialects, &evaluators.facts()).unwrap());
    let resolver = Resolver::new(Arc::clone(&table));
    let started = processor_ms();
    let mut batches = [SpanBatch::default()];
    let mut cache = Default::default();
    extract(&table, Signal::Traces, request, &mut cache, &mut batches).unwrap();
    let [SpanBatch { arena, spans, runs, resources, .. }] = batches;
    let trace_id = runs.first().map(|run| run.trace_id).unwrap_or_default();
    let trace = TraceSpans { trace_id, spans, arena, resources, ..TraceSpans::default() };
    let extract_ms = processor_ms() - started;
    let evidence = Evidence::first([1; 16], Completion::RootEnded, 1);
    let judge = || {
        let started = processor_ms();
        let effort = steps.map_or_else(WorkBudget::default, WorkBudget::new);
        let mut trajectory = resolver.resolve_within(&trace, effort);
        let mut out = Vec::new();
        evaluators.evaluate_trace(&mut trajectory, evidence, &mut Vec::new(), &mut out);
        let steps = trajectory.effort.taken();
        drop((trajectory, out));
        (processor_ms() - started, steps)
    };
    // The first one compiles expressions that the process then keeps.
    judge();
    let (judge_ms, steps) = judge();
    Measured { extract_ms, judge_ms, steps }
}

/// Processor time of this thread so far, milliseconds.
pub(crate) fn processor_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or_default() / 1e6
}
