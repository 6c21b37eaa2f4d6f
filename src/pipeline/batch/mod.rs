//! Judges recorded requests in two passes, so that memory is bounded whatever the size of the input
//! and no trace is judged on a part of its spans.
//!
//! 1. [`read`]: requests are decoded and reduced to what the evaluators need, on all cores; the
//!    records go to a spool, and where those of each trace stand into an index.
//! 2. [`judge`]: windows of traces are put together and judged, on all cores. Traces that name a
//!    session wait for the others of it, since they know of each other's calls.
//!
//! What is held: the places of the records, a few bytes for each request and trace; one window for
//! each core; the largest session. Without a clock: all traces are complete when the input ends.

mod judge;
mod pieces;
mod read;
pub mod spool;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use crate::assemble::{CutTrace, LimitsSettings, SessionKeyFields};
use crate::evaluate::AskedTarget;
use crate::evaluate::engine::run::Evaluators;
use crate::extract::{Extracted, ExtractionCache, Resolver, extract};
use crate::model::{Evaluation, SpanBatch, TraceId};
use crate::otlp::Signal;
use crate::otlp::request::Broken;

use judge::BatchJudge;
use pieces::TracePieces;

/// What is judged, how and by whom.
#[derive(Clone, Copy)]
pub struct BatchPlan<'a> {
    /// Reads what instrumentations write.
    pub resolver: &'a Resolver,
    /// Those of one trace hold: traces that grow beyond them are judged with what was kept.
    pub limits: LimitsSettings,
    /// What makes traces those of one session.
    pub session_key: SessionKeyFields,
    /// Who judges.
    pub evaluators: &'a Evaluators,
    /// When, Unix nanoseconds.
    pub now_ns: u64,
    /// Threads.
    pub cores: usize,
}

/// What came of it beside the evaluations.
#[derive(Default)]
pub struct BatchCounts {
    /// Traces that were judged.
    pub judged_traces: usize,
    /// Places of evaluators, in the order of the config, whose `when` could not be evaluated for a
    /// trace, once for each.
    pub when_errors: Vec<usize>,
    /// Traces that hold no span of a tool, an agent or a model.
    pub without_agent: Vec<TraceId>,
    /// Traces that grew beyond a limit.
    pub cut: Vec<CutTrace>,
}

/// The place of an evaluation among all: those of traces first, in the order of their first spans.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BatchOrder {
    /// Of the trace that is the n-th.
    Trace(usize),
    /// Of the session whose first trace is the n-th.
    Session(usize),
}

/// Why it ended early.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The spool.
    #[error("cannot keep traces in a temporary file (TMPDIR says where): {0}")]
    Spool(#[from] std::io::Error),
    /// A request.
    #[error(transparent)]
    Request(#[from] Broken),
    /// Whoever takes the evaluations has enough.
    #[error("stopped")]
    Stopped,
}

/// Tells of the work while it goes on; both count up.
#[derive(Debug, Default)]
pub struct BatchProgress {
    /// Bytes of the inputs that were read, as they stand on the disk.
    pub read: AtomicU64,
    /// Traces that were judged.
    pub judged: AtomicU64,
    /// Traces there are, once all is read; 0 until then.
    pub traces: AtomicU64,
}

/// The evaluations of one trace or session.
pub struct JudgedGroup {
    /// Their place among all.
    pub order: BatchOrder,
    /// What was said.
    pub evaluations: Vec<Evaluation>,
    /// What is to be asked of judges; what they say comes behind the evaluations.
    pub asked: Vec<AskedTarget>,
}

/// Recorded requests that are read, then judged.
pub struct Batch<'a> {
    settings: BatchPlan<'a>,
    pieces: TracePieces,
    cache: ExtractionCache,
}

impl<'a> Batch<'a> {
    /// Holds nothing yet.
    pub fn new(settings: BatchPlan<'a>) -> Self {
        let pieces = TracePieces::new(spool::MEMORY_BYTES_MAX);
        Self { settings, pieces, cache: ExtractionCache::default() }
    }

    /// Reads files on all cores. `problem` hears what could not be read.
    ///
    /// # Errors
    /// Where the spool fails.
    pub fn read(
        &mut self,
        files: &[PathBuf],
        progress: &BatchProgress,
        problem: &mut (dyn FnMut(String) + Send),
    ) -> Result<(), BatchError> {
        read::read(&self.settings, files, progress, &mut self.pieces, problem)
    }

    /// Adds one request.
    ///
    /// # Errors
    /// Where it is no request, or the spool fails.
    pub fn add(&mut self, signal: Signal, body: &[u8]) -> Result<Extracted, BatchError> {
        let mut batches = [SpanBatch::default()];
        let table = self.settings.resolver.table();
        let extracted = extract(table, signal, body, &mut self.cache, &mut batches)?;
        let [batch] = batches;
        self.pieces.add(&batch)?;
        Ok(extracted)
    }

    /// Judges all that was read. `visit` gets the evaluations of one trace or session after the
    /// other, in any order; false ends it.
    ///
    /// # Errors
    /// Where the spool fails, or `visit` wants no more.
    pub fn judge(
        self,
        progress: &BatchProgress,
        visit: &mut dyn FnMut(JudgedGroup) -> bool,
    ) -> Result<BatchCounts, BatchError> {
        self.judge_prepared(progress, &|groups| groups, &mut |groups| {
            groups.into_iter().all(&mut *visit)
        })
    }

    /// The same, where `prepare` makes of the evaluations of some traces what `visit` takes, on the
    /// threads that judge: what is long to make is made on all cores.
    ///
    /// # Errors
    /// Where the spool fails, or `visit` wants no more.
    pub fn judge_prepared<T: Send>(
        mut self,
        progress: &BatchProgress,
        prepare: &(dyn Fn(Vec<JudgedGroup>) -> T + Sync),
        visit: &mut dyn FnMut(T) -> bool,
    ) -> Result<BatchCounts, BatchError> {
        self.pieces.finish()?;
        BatchJudge::new(&self.settings, &self.pieces, progress).run(prepare, visit)
    }
}
