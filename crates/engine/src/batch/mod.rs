//! Batch judging of recorded requests in two passes, with bounded memory for any input, and each
//! trace judged with all its spans.
//!
//! 1. [`Batch::add`]: requests are decoded and reduced to the facts that evaluators need;
//!    the records go to a spool, their positions by trace to an index.
//! 2. [`judge`]: windows of traces are assembled and judged, on all cores. Traces of a session wait
//!    for each other, since each knows about calls of the others.
//!
//! In memory at once: the index, a few bytes per request and trace; one window per core; the
//! largest session. There is no clock: all traces are complete at the end of the input.

mod judge;
mod pieces;
pub mod spool;

use std::sync::atomic::{AtomicBool, AtomicU64};

use spanscore_assemble::{CutTrace, Due, LimitsSettings, SessionKeyFields};
use spanscore_base::model::{Evaluation, SpanBatch, TraceId, Trajectory};
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::request::Broken;
use spanscore_evaluate::AskedTarget;
use spanscore_evaluate::engine::run::Evaluators;
use spanscore_extract::{Extracted, ExtractionCache, Resolver, extract};

use judge::BatchJudge;
use pieces::TracePieces;

/// Settings of a batch.
#[derive(Clone, Copy)]
pub struct BatchPlan<'a> {
    /// Resolver, compiled from the dialects.
    pub resolver: &'a Resolver,
    /// Limits; a trace beyond those of one trace is judged on its retained part.
    pub limits: LimitsSettings,
    /// Fields that make up the key of a session.
    pub session_key: SessionKeyFields,
    /// Evaluators.
    pub evaluators: &'a Evaluators,
    /// Time of the evaluations, Unix nanoseconds.
    pub now_ns: u64,
    /// Number of threads.
    pub cores: usize,
}

/// Results of a batch besides its evaluations.
#[derive(Default)]
pub struct BatchCounts {
    /// Number of judged traces.
    pub judged_traces: usize,
    /// Evaluators whose `when` failed on a trace, by config index, once per trace.
    pub when_errors: Vec<usize>,
    /// Traces without a tool, agent or model span.
    pub without_agent: Vec<TraceId>,
    /// Traces that exceeded a limit.
    pub cut: Vec<CutTrace>,
}

/// Sort key of evaluations: those of traces first, by the order of first spans.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BatchOrder {
    /// Trace of this index.
    Trace(usize),
    /// Session whose first trace has this index.
    Session(usize),
}

/// Reason for an early end.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The spool cannot be written or read.
    #[error("cannot keep traces in a temporary file (TMPDIR says where)")]
    Spool(#[from] std::io::Error),
    /// A request cannot be decoded.
    #[error(transparent)]
    Request(#[from] Broken),
    /// The consumer of evaluations, or another thread, asked to stop.
    #[error("stopped")]
    Stopped,
}

/// Progress counters and stop request, shared with other threads.
#[derive(Debug, Default)]
pub struct BatchProgress {
    /// Bytes read from the input files, as stored on disk.
    pub read: AtomicU64,
    /// Number of judged traces.
    pub judged: AtomicU64,
    /// Number of traces after all files are read; 0 before.
    pub traces: AtomicU64,
    /// True to stop before the next piece or window.
    pub stop: AtomicBool,
}

/// Evaluations of one trace or session.
pub struct JudgedGroup {
    /// Sort key.
    pub order: BatchOrder,
    /// Complete evaluations.
    pub evaluations: Vec<Evaluation>,
    /// Inquiries to judges, whose evaluations follow the complete ones.
    pub asked: Vec<AskedTarget>,
}

/// Judged trace with its evidence, for a [`BatchWatch`].
pub struct WatchedRun<'r, 't> {
    /// Resolved trace.
    pub trajectory: &'r Trajectory<'t>,
    /// Completion of the trace.
    pub due: &'r Due,
    /// Number of its spans.
    pub spans: usize,
    /// Evaluations and open inquiries.
    pub judged: &'r JudgedGroup,
}

/// Observer of judged traces, called on the judging threads before their evaluations are passed on.
pub type BatchWatch<'a> = &'a (dyn Fn(&WatchedRun<'_, '_>) + Sync);

/// Recorded requests, read first and judged afterwards.
pub struct Batch<'a> {
    settings: BatchPlan<'a>,
    watch: Option<BatchWatch<'a>>,
    pieces: TracePieces,
    cache: ExtractionCache,
}

impl<'a> Batch<'a> {
    /// Creates an empty batch.
    pub fn new(settings: BatchPlan<'a>) -> Self {
        let pieces = TracePieces::new(spool::MEMORY_BYTES_MAX);
        Self { settings, watch: None, pieces, cache: ExtractionCache::default() }
    }

    /// Sets the observer of judged traces.
    pub fn watched(self, watch: BatchWatch<'a>) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Returns the plan.
    pub fn plan(&self) -> BatchPlan<'a> {
        self.settings
    }

    /// Adds records extracted with the plan's table.
    ///
    /// # Errors
    /// The spool fails.
    pub fn add_records(&mut self, batch: &SpanBatch) -> std::io::Result<()> {
        self.pieces.add(batch)
    }

    /// Adds one request.
    ///
    /// # Errors
    /// The request cannot be decoded, or the spool fails.
    pub fn add(&mut self, signal: Signal, body: &[u8]) -> Result<Extracted, BatchError> {
        let mut batches = [SpanBatch::default()];
        let table = self.settings.resolver.table();
        let extracted = extract(table, signal, body, &mut self.cache, &mut batches)?;
        let [batch] = batches;
        self.pieces.add(&batch)?;
        Ok(extracted)
    }

    /// Judges all traces. `visit` receives the evaluations of each trace or session, in any order;
    /// it returns false to stop.
    ///
    /// # Errors
    /// The spool fails, or `visit` stops.
    pub fn judge(
        self,
        progress: &BatchProgress,
        visit: &mut dyn FnMut(JudgedGroup) -> bool,
    ) -> Result<BatchCounts, BatchError> {
        self.judge_prepared(progress, &|groups| groups, &mut |groups| {
            groups.into_iter().all(&mut *visit)
        })
    }

    /// Judges all traces, with `prepare` converting evaluations on the judging threads, so that
    /// costly conversions use all cores.
    ///
    /// # Errors
    /// The spool fails, or `visit` stops.
    pub fn judge_prepared<T: Send>(
        mut self,
        progress: &BatchProgress,
        prepare: &(dyn Fn(Vec<JudgedGroup>) -> T + Sync),
        visit: &mut dyn FnMut(T) -> bool,
    ) -> Result<BatchCounts, BatchError> {
        self.pieces.finish()?;
        BatchJudge::new((&self.settings, self.watch), &self.pieces, progress).run(prepare, visit)
    }
}
