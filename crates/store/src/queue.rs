//! Bounded queue of the writer, which sheds in steps as it fills.
//!
//! Half full, passing runs lose their content. From three quarters on they lose their calls, and
//! passing evaluations are only counted. When full, everything is only counted, in sums merged
//! here. Callers never wait.
//!
//! Shedding depends on a sender's queued amount: one with little beside the largest is stored
//! completely, and a full queue makes room for it from the largest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex, MutexGuard};

use spanscore_base::model::{
    DisplacedItem, Evaluation, EvaluatorInfo, FairQueue, GivenVerdict, Outcome, Sender,
    SenderShares, Target,
};
use spanscore_base::value::{Number, Value};

use crate::counters::{StoreCount, StoreCounters};
use crate::edit::{QueuedEdit, StoreEditError};
use crate::record::TrajectoryRecord;
use crate::rollup::{EvaluationFigures, RollupSums};
use crate::source::RunSource;

/// Limits of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreQueueLimits {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    /// Limit on sums merged while the queue is full.
    pub(crate) sums: usize,
}

impl StoreQueueLimits {
    /// Returns the limits of a queue of this size.
    pub(crate) fn of(bytes: usize) -> Self {
        Self { rows: 65_536, bytes, sums: 10_000 }
    }
}

/// Inverse of the share of the largest sender's queued amount that counts as little.
const LITTLE_PART: u64 = 4;

/// Limit on waiting edits.
const EDITS_MAX: usize = 32;

/// Work of the writer.
pub(crate) enum StoreWork {
    /// A run; only the row of a shed one is stored.
    Trajectory { record: Box<TrajectoryRecord>, is_shed: bool },
    /// Evaluations; passes of shed ones are only counted.
    Evaluations { all: Arc<[Evaluation]>, is_shed: bool },
    /// Evaluations from a client's process.
    Collected { all: Vec<Evaluation>, client: Arc<str> },
}

/// Key of merged sums: minute, evaluator, source.
pub(crate) type SumKey = (i64, [u8; 16], RunSource);
/// Merged sums.
pub(crate) type MergedSums = HashMap<SumKey, MergedRow>;

/// Sums of a key, with their evaluator and first sender.
pub(crate) struct MergedRow {
    pub(crate) info: Arc<EvaluatorInfo>,
    pub(crate) sender: Sender,
    pub(crate) sums: RollupSums,
}

/// Batch taken by the writer.
#[derive(Default)]
pub(crate) struct StoreBatch {
    pub(crate) work: Vec<StoreWork>,
    pub(crate) merged: MergedSums,
    /// Edits of people.
    pub(crate) edits: Vec<QueuedEdit>,
    /// Rows and bytes that it holds in the queue until [`StoreQueue::done`].
    held: (usize, usize),
    /// True for the last batch.
    pub(crate) is_last: bool,
}

/// Waiting work, with its sender, rows and bytes.
struct WaitingWork {
    work: StoreWork,
    sender: Sender,
    rows: usize,
    bytes: usize,
}

#[derive(Default)]
struct QueueState {
    work: FairQueue<WaitingWork>,
    /// Work of other processes, which makes no room: it was acknowledged and is in no sum.
    collected: FairQueue<WaitingWork>,
    /// Bytes of the batch being written.
    writing: SenderShares,
    /// Rows and bytes, including the batch being written.
    rows: usize,
    bytes: usize,
    /// Waiting rows.
    waiting: usize,
    /// Rows of this process taken in excess of others' while both waited.
    more_own: isize,
    merged: MergedSums,
    edits: Vec<QueuedEdit>,
    is_closed: bool,
}

impl QueueState {
    /// Returns the queued bytes of other processes' work, for the sender's peer or the sender, and
    /// for the largest holder. That work has no connection.
    fn collected(&mut self, sender: Sender) -> (u64, u64) {
        self.collected.queued_costs(Sender { connection: 0, ..sender })
    }

    /// Returns the bytes of a sender's peer in the batch being written, and those of the largest
    /// peer; of connections if the sender's peer is the only one.
    fn written(&mut self, sender: Sender) -> (u64, u64) {
        let (of_peer, own) = self.writing.held(sender);
        let richest = self.writing.richest(sender, 0);
        let most = richest.map_or((of_peer, own), |richest| self.writing.held(richest));
        if self.writing.is_peers_alone(sender.peer) {
            return (own as u64, most.1 as u64);
        }
        (of_peer as u64, most.0 as u64)
    }

    /// Returns true if a sender has little queued, including `more` bytes.
    fn is_little(&mut self, sender: Sender, more: usize) -> bool {
        let (own, most) = self.work.queued_costs(sender);
        let (collected, most_collected) = self.collected(sender);
        let (written, most_written) = self.written(sender);
        let most = most.max(most_collected).max(most_written);
        own + collected + written + (more as u64) < most / LITTLE_PART
    }

    fn is_idle(&self) -> bool {
        let is_empty = self.work.is_empty() && self.collected.is_empty();
        is_empty && self.merged.is_empty() && self.edits.is_empty()
    }
}

/// Queue between shards and the writer.
pub(crate) struct StoreQueue {
    state: Mutex<QueueState>,
    /// Last [`Rung`], for shards that have not built a record yet.
    rung: AtomicU8,
    came: Condvar,
    limits: StoreQueueLimits,
    counters: Arc<StoreCounters>,
}

/// Step of shedding; the last one also applies after closing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Rung {
    All,
    NoContent,
    RowsOnly,
    SumsOnly,
}

impl StoreQueue {
    pub(crate) fn new(limits: StoreQueueLimits, counters: Arc<StoreCounters>) -> Self {
        let rung = AtomicU8::new(Rung::All as u8);
        Self { state: Mutex::default(), rung, came: Condvar::new(), limits, counters }
    }

    /// Returns `None` without room for a sender's run, else true if it may include its content.
    /// Counts omissions; the run may still be shed.
    pub(crate) fn admit(
        &self,
        sender: Sender,
        is_passing: bool,
        with_content: bool,
    ) -> Option<bool> {
        let rung = self.rung_of(sender);
        if rung >= Rung::SumsOnly as u8 {
            self.counters.add(StoreCount::ShedTrajectories, 1);
            return None;
        }
        let is_shed = is_passing && with_content && rung >= Rung::NoContent as u8;
        self.counters.add(StoreCount::ShedContent, usize::from(is_shed));
        Some(with_content && !is_shed)
    }

    /// Returns true if runs are stored completely.
    pub(crate) fn has_room(&self) -> bool {
        self.rung.load(Ordering::Relaxed) == Rung::All as u8
    }

    /// Adds a run, or the part of it with room; it arrived at `now_ms`.
    pub(crate) fn put_trajectory(&self, mut record: Box<TrajectoryRecord>, now_ms: i64) {
        let size = record.bytes();
        let sender = record.sender;
        let mut state = self.state.lock();
        let rung = self.make_room(&mut state, sender, size, now_ms);
        if rung == Rung::SumsOnly {
            self.counters.add(StoreCount::ShedTrajectories, 1);
            return;
        }
        let is_passing = record.judgement.is_passing;
        let is_shed = is_passing && rung >= Rung::RowsOnly;
        if is_passing && rung >= Rung::NoContent {
            let is_told = record.content.take().is_some();
            self.counters.add(StoreCount::ShedContent, usize::from(is_told));
            record.definitions = None;
        }
        if is_shed {
            self.counters.add(StoreCount::ShedCalls, 1);
        }
        let bytes = record.bytes();
        let rows = 2 + if is_shed { 0 } else { record.calls.len() };
        let work = StoreWork::Trajectory { record, is_shed };
        self.put(&mut state, WaitingWork { work, sender, rows, bytes });
    }

    /// Adds evaluations, or only counts them without room; they arrived at `now_ms`.
    pub(crate) fn put_evaluations(&self, all: Arc<[Evaluation]>, now_ms: i64) {
        let bytes = size_of_evaluations(&all);
        let sender = sender_of(&all);
        let mut state = self.state.lock();
        if state.is_closed {
            self.counters.add(StoreCount::Lost, all.len());
            return;
        }
        let rung = self.make_room(&mut state, sender, bytes, now_ms);
        if rung == Rung::SumsOnly {
            return self.merge_all(&mut state, &all, now_ms);
        }
        let is_shed = rung >= Rung::RowsOnly;
        let is_stored = |it: &&Evaluation| !is_shed || it.verdict() != GivenVerdict::Pass;
        let rows = all.iter().filter(is_stored).count();
        let work = StoreWork::Evaluations { all, is_shed };
        self.put(&mut state, WaitingWork { work, sender, rows, bytes });
    }

    /// Returns true if there is room for another process's data, which otherwise is retried.
    pub(crate) fn has_room_for(&self, sender: Sender) -> bool {
        self.rung_of(sender) < Rung::RowsOnly as u8
    }

    /// Adds evaluations of another process; returns the number without room.
    pub(crate) fn put_collected(
        &self,
        all: Vec<Evaluation>,
        client: Arc<str>,
        now_ms: i64,
    ) -> usize {
        let rows = all.len();
        let bytes = size_of_evaluations(&all);
        let sender = sender_of(&all);
        let mut state = self.state.lock();
        if self.make_room(&mut state, sender, bytes, now_ms) == Rung::SumsOnly {
            self.counters.add(StoreCount::CollectedUnstored, rows);
            return rows;
        }
        let work = StoreWork::Collected { all, client };
        self.put(&mut state, WaitingWork { work, sender, rows, bytes });
        0
    }

    /// Adds an edit, unless too many wait or the queue is closed.
    pub(crate) fn put_edit(&self, edit: QueuedEdit) -> Result<(), StoreEditError> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(StoreEditError::Unavailable);
        }
        if state.edits.len() >= EDITS_MAX {
            return Err(StoreEditError::Busy);
        }
        state.edits.push(edit);
        self.came.notify_one();
        Ok(())
    }

    /// Waits up to `idle` for work, then up to `gather` for a full batch, and takes it.
    pub(crate) fn take(&self, rows_max: usize, idle: Duration, gather: Duration) -> StoreBatch {
        let mut state = self.state.lock();
        self.wait(&mut state, idle, QueueState::is_idle);
        let gathers = |state: &QueueState| {
            state.waiting < rows_max && !state.is_idle() && state.edits.is_empty()
        };
        self.wait(&mut state, gather, gathers);
        self.take_from(state, rows_max)
    }

    /// Waits for a time, or until the queue is closed; returns true if it is.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        self.wait(&mut state, time, |_| true);
        state.is_closed
    }

    /// Waits for a time, while the queue is open and `goes_on`.
    fn wait(
        &self,
        state: &mut MutexGuard<'_, QueueState>,
        time: Duration,
        goes_on: impl Fn(&QueueState) -> bool,
    ) {
        self.came.wait_while_for(state, |state| !state.is_closed && goes_on(state), time);
    }

    fn take_from(&self, mut state: MutexGuard<'_, QueueState>, rows_max: usize) -> StoreBatch {
        let mut batch = StoreBatch {
            merged: std::mem::take(&mut state.merged),
            edits: std::mem::take(&mut state.edits),
            ..Default::default()
        };
        // Half of each line if both have work; a part of others' may fill a batch alone.
        while batch.held.0 < rows_max {
            if state.work.is_empty() || state.collected.is_empty() {
                state.more_own = 0;
            }
            let is_own =
                state.more_own <= 0 && !state.work.is_empty() || state.collected.is_empty();
            let line = if is_own { &mut state.work } else { &mut state.collected };
            let Some(WaitingWork { work, sender, rows, bytes }) = line.take() else { break };
            state.more_own += if is_own { rows as isize } else { -(rows as isize) };
            state.waiting -= rows;
            state.writing.add(sender, bytes);
            batch.held.0 += rows;
            batch.held.1 += bytes;
            batch.work.push(work);
        }
        batch.is_last = state.is_closed && state.work.is_empty() && state.collected.is_empty();
        batch
    }

    /// Releases the room of a batch after it was written or lost.
    pub(crate) fn done(&self, batch: StoreBatch) {
        let (rows, bytes) = batch.held;
        drop(batch);
        let mut state = self.state.lock();
        state.rows -= rows;
        state.bytes -= bytes;
        state.writing = SenderShares::default();
        self.counters.set(StoreCount::QueueBytes, state.bytes as u64);
        self.rung.store(self.rung(&state, 0) as u8, Ordering::Relaxed);
    }

    /// Closes the queue; the writer ends after writing the rest.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.rung.store(Rung::SumsOnly as u8, Ordering::Relaxed);
        self.came.notify_all();
    }

    fn put(&self, state: &mut QueueState, work: WaitingWork) {
        let WaitingWork { sender, rows, bytes, .. } = work;
        let was_idle = state.work.is_empty() && state.collected.is_empty();
        let is_collected = matches!(work.work, StoreWork::Collected { .. });
        let line = if is_collected { &mut state.collected } else { &mut state.work };
        line.put(sender, bytes, work);
        state.rows += rows;
        state.waiting += rows;
        state.bytes += bytes;
        self.rung.store(self.rung(state, 0) as u8, Ordering::Relaxed);
        self.counters.set(StoreCount::QueueBytes, state.bytes as u64);
        if was_idle || state.waiting >= crate::writer::BATCH_ROWS {
            self.came.notify_one();
        }
    }

    /// Makes room for a sender's bytes in a full queue, from senders with more; returns the step of
    /// shedding for them.
    fn make_room(&self, state: &mut QueueState, sender: Sender, bytes: usize, now_ms: i64) -> Rung {
        while self.rung(state, bytes) == Rung::SumsOnly && !state.is_closed {
            let beyond = (state.bytes + bytes + 1).saturating_sub(self.limits.bytes);
            // Full of rows, it frees as many bytes as are added.
            let lacking = if beyond == 0 { bytes } else { beyond };
            let with_collected = bytes + state.collected(sender).0 as usize;
            let displaced = state.work.displace(sender, with_collected, lacking);
            if displaced.is_empty() {
                break;
            }
            // Evaluations that are only counted free bytes, but no row.
            for DisplacedItem { content: gone, .. } in displaced {
                state.rows -= gone.rows;
                state.waiting -= gone.rows;
                state.bytes -= gone.bytes;
                match gone.work {
                    StoreWork::Evaluations { all, .. } => self.merge_all(state, &all, now_ms),
                    _ => self.counters.add(StoreCount::ShedTrajectories, 1),
                }
            }
        }
        let rung = self.rung(state, bytes);
        if rung < Rung::SumsOnly && state.is_little(sender, bytes) { Rung::All } else { rung }
    }

    /// Returns the step of shedding for a sender's next record of unknown size. Locks the queue
    /// only when it is half full.
    fn rung_of(&self, sender: Sender) -> u8 {
        let rung = self.rung.load(Ordering::Relaxed);
        if rung == Rung::All as u8 {
            return rung;
        }
        let mut state = self.state.lock();
        if !state.is_closed && state.is_little(sender, 0) { Rung::All as u8 } else { rung }
    }

    /// Returns the step of shedding for this many more bytes.
    fn rung(&self, state: &QueueState, more: usize) -> Rung {
        let quarters = |held: usize, most: usize| held.saturating_mul(4) / most.max(1);
        let StoreQueueLimits { rows, bytes, .. } = self.limits;
        if state.is_closed {
            return Rung::SumsOnly;
        }
        match quarters(state.rows, rows).max(quarters(state.bytes.saturating_add(more), bytes)) {
            0 | 1 => Rung::All,
            2 => Rung::NoContent,
            3 => Rung::RowsOnly,
            _ => Rung::SumsOnly,
        }
    }

    /// Counts evaluations only in the sums.
    fn merge_all(&self, state: &mut QueueState, all: &[Evaluation], now_ms: i64) {
        all.iter().for_each(|evaluation| self.merge(state, evaluation, now_ms));
        self.counters.add(StoreCount::ShedEvaluations, all.len());
    }

    fn merge(&self, state: &mut QueueState, evaluation: &Evaluation, now_ms: i64) {
        let figures = EvaluationFigures::new(evaluation, now_ms);
        let source = RunSource::of_target(&evaluation.target);
        let key = (figures.minute(), evaluation.evaluator.digest, source);
        if !state.merged.contains_key(&key) && state.merged.len() >= self.limits.sums {
            self.counters.add(StoreCount::Lost, 1);
            return;
        }
        self.counters.add(StoreCount::RepeatedUnseen, 1);
        self.counters.add(StoreCount::Uncorrected, usize::from(evaluation.revises.is_some()));
        let fresh = || MergedRow {
            info: Arc::clone(&evaluation.evaluator),
            sender: evaluation.target.sender,
            sums: RollupSums::default(),
        };
        state.merged.entry(key).or_insert_with(fresh).sums.count(&figures, 1);
    }
}

/// Returns the sender of evaluations of one trace, or of one client.
fn sender_of(all: &[Evaluation]) -> Sender {
    all.first().map(|first| first.target.sender).unwrap_or_default()
}

/// Returns the approximate bytes of evaluations. Those of one target share it.
fn size_of_evaluations(all: &[Evaluation]) -> usize {
    let of_target = all.chunk_by(|a, b| Arc::ptr_eq(&a.target, &b.target));
    let targets = of_target.filter_map(|some| some.first()).map(|it| size_of_target(&it.target));
    targets.sum::<usize>() + all.iter().map(size_of_evaluation).sum::<usize>()
}

fn size_of_target(target: &Target) -> usize {
    let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
    size_of::<Target>()
        + target.resource.bytes()
        + text(&target.session_id)
        + text(&target.agent_name)
        + target.response.as_ref().map_or(0, |(_, id)| id.len())
}

fn size_of_evaluation(evaluation: &Evaluation) -> usize {
    let texts = match &evaluation.outcome {
        Outcome::Scored(score) => score.explanation.bytes() + size_of_value(&score.details),
        Outcome::NotEvaluable { explanation, .. } => explanation.len(),
        Outcome::Failed { error, .. } => error.len(),
    };
    size_of::<Evaluation>() + texts
}

fn size_of_value(value: &Value<'_>) -> usize {
    let inner = match value {
        Value::String(text) => text.len(),
        Value::Number(Number::Big(digits)) => digits.len(),
        Value::List(items) => items.iter().map(size_of_value).sum(),
        Value::Map(map) => map.iter().map(|(key, item)| key.len() + size_of_value(item)).sum(),
        _ => 0,
    };
    size_of::<Value<'_>>() + inner
}
