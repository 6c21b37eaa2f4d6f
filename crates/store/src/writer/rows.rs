//! Rows of runs and evaluations, within one transaction.

use std::sync::Arc;

use rusqlite::{Connection, params};

use spanscore_base::model::{
    CallStatus, ClientGroup, Completion, Evaluation, EvaluationId, GivenVerdict, Level, Recent,
    Sender, Target, fingerprint,
};

use super::collected::{Bringer, hash_of_name, is_full_of};
use super::content::ContentPolicy;
use super::names::{KnownNames, cut};
use super::retention::MINUTES_KEPT_MS;
use super::statements::{
    EvaluationPlace, add_turn, insert_call, insert_evaluation, leave_session, micros,
    replace_content, run, update_trajectory,
};
use super::sums::{CallFigures, PendingSums};
use super::traces::{AWAITED, KnownEvaluation, KnownTrace};
use super::users::UserKey;
use crate::counters::{StoreCount, StoreCounters};
use crate::queue::{MergedRow, MergedSums, StoreBatch, StoreWork};
use crate::record::{CallRecord, TraceKey, TrajectoryRecord};
use crate::rollup::{EvaluationFigures, clamp, clamped_duration_us};
use crate::source::RunSource;

/// Limit on the weight of known traces: evaluations, and one for each trace.
const KNOWN_MAX: usize = 100_000;
/// Row without content.
const SHED_CONTENT: i64 = 1;
/// Row without content, calls and passing evaluations.
pub(super) const SHED_ALL: i64 = 2;

/// Cached state of the file, cleared by a failed transaction.
pub(super) struct RowWriter {
    pub(super) names: KnownNames,
    traces: Recent<TraceKey, KnownTrace>,
    pub(super) sums: PendingSums,
    pub(super) user_key: Option<UserKey>,
    /// Storing time, Unix milliseconds, which never goes back.
    now_ms: i64,
    pub(super) counts: StoreCounters,
}

/// Initial facts of a trace's row.
struct NewTrace<'a> {
    trace: TraceKey,
    span_id: &'a [u8; 8],
    session_id: Option<&'a str>,
    source: RunSource,
    sender: Sender,
    time_ms: i64,
}

impl RowWriter {
    pub(super) fn new(now_ms: i64) -> Self {
        Self {
            names: KnownNames::default(),
            traces: Recent::new(KNOWN_MAX),
            sums: PendingSums::default(),
            user_key: None,
            now_ms,
            counts: StoreCounters::default(),
        }
    }

    /// Writes a batch; the caller commits.
    pub(super) fn write(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        batch: &StoreBatch,
        now_ms: i64,
    ) -> rusqlite::Result<()> {
        self.now_ms = self.now_ms.max(now_ms);
        self.sums.hours_before(self.now_ms.saturating_sub(MINUTES_KEPT_MS));
        for work in &batch.work {
            match work {
                StoreWork::Trajectory { record, is_shed } => {
                    self.trajectory(connection, policy, record, *is_shed)?;
                }
                StoreWork::Evaluations { all, is_shed } => {
                    let of_trace = all.chunk_by(|a, b| key(&a.target) == key(&b.target));
                    for evaluations in of_trace {
                        self.evaluations(connection, policy, evaluations, Bringer::This(*is_shed))?;
                    }
                }
                StoreWork::Collected { all, client } => {
                    let of_trace = all.chunk_by(|a, b| key(&a.target) == key(&b.target));
                    for evaluations in of_trace {
                        let bringer = Bringer::Client(client);
                        self.evaluations(connection, policy, evaluations, bringer)?;
                    }
                }
            }
        }
        self.merged(connection, policy, &batch.merged)?;
        let left_out = self.names.take_left_out();
        self.counts.add(StoreCount::NamesLeftOut, left_out);
        self.sums.flush(connection)
    }

    fn merged(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        merged: &MergedSums,
    ) -> rusqlite::Result<()> {
        for ((minute, _, source), MergedRow { info, sender, sums }) in merged {
            let evaluator = self.names.evaluator(connection, info)?;
            let source = self.names.source(connection, policy, (source, *sender))?;
            self.sums.add_minute(*minute, (evaluator, source), sums);
        }
        Ok(())
    }

    fn trajectory(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        record: &TrajectoryRecord,
        is_shed: bool,
    ) -> rusqlite::Result<()> {
        let new = NewTrace {
            trace: record.trace,
            span_id: &record.span_id.0,
            session_id: record.session_id.as_deref().map(cut),
            source: RunSource::new(&record.resource, record.agent_name.as_deref()),
            sender: record.sender,
            time_ms: clamp(record.end_ns, self.now_ms),
        };
        let time_ms = new.time_ms;
        let source = new.source.clone();
        let session_id = new.session_id;
        let mut trace = self.trace(connection, policy, new)?;
        let revision = i64::from(record.judgement.revision);
        let size = (record.judgement.spans as i64, record.call_count as i64, time_ms);
        let was_stored = trace.revision != AWAITED;
        let is_same = trace.revision == revision && trace.size == size;
        // A forgotten trace begins anew with its late spans: the larger part stays.
        let is_fragment = was_stored && trace.revision <= revision && size.0 < trace.size.0;
        let is_other_part = was_stored && trace.revision == revision && !is_same;
        self.counts.add(StoreCount::Fragments, usize::from(is_fragment || is_other_part));
        if trace.revision > revision || is_same || is_fragment {
            trace.is_repeat = true;
            self.keep(record.trace, trace);
            return Ok(());
        }
        let of = (&source, record.sender);
        self.place(connection, policy, (record.trace.1, session_id, time_ms), of, &mut trace)?;
        trace.revision = revision;
        trace.size = size;
        trace.shed =
            if is_shed { SHED_ALL } else { i64::from(record.content.is_none()) * SHED_CONTENT };
        trace.is_repeat = false;
        trace.forget_tools();
        self.calls(connection, record, &trace, is_shed, was_stored)?;
        let content = record.content.as_ref().map(|it| policy.content(record.trace.0, it));
        let title = content.as_ref().and_then(|(_, title)| title.as_deref());
        let definitions = self.definitions(connection, policy, record)?;
        let user = self.user(connection, policy, record)?;
        let duration_us = clamped_duration_us(record.start_ns, record.end_ns, self.now_ms);
        let told = (title, definitions, user.as_deref());
        update_trajectory(connection, record, &trace, duration_us, told)?;
        replace_content(connection, trace.seq, content.as_ref().map(|(content, _)| &**content))?;
        if !was_stored {
            self.counts.add(StoreCount::Trajectories, 1);
            self.counts.add(StoreCount::Calls, record.call_count);
        }
        self.keep(record.trace, trace);
        Ok(())
    }

    /// Sets the source and the session of a trace: evaluations that arrived before the run may have
    /// known less.
    fn place(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        (group, session_id, time_ms): (ClientGroup, Option<&str>, i64),
        source: (&RunSource, Sender),
        trace: &mut KnownTrace,
    ) -> rusqlite::Result<()> {
        let source = self.names.source(connection, policy, source)?;
        let is_moved = std::mem::replace(&mut trace.source, source) != source;
        let Some(id) = session_id.filter(|_| is_moved || trace.session.is_none()) else {
            return Ok(());
        };
        let session = add_turn(connection, (id, source, group), time_ms)?;
        if let Some(old) = trace.session.replace(session) {
            leave_session(connection, trace.seq, old, session)?;
        }
        Ok(())
    }

    /// Replaces the calls of a trace, in the sums too.
    fn calls(
        &mut self,
        connection: &Connection,
        record: &TrajectoryRecord,
        trace: &KnownTrace,
        is_shed: bool,
        was_stored: bool,
    ) -> rusqlite::Result<()> {
        if was_stored {
            let mut old = connection.prepare_cached(
                "DELETE FROM calls WHERE trajectory = ?1
                 RETURNING tool, source, time, duration_us, status, undeclared",
            )?;
            let mut old = old.query([trace.seq])?;
            while let Some(row) = old.next()? {
                let call = CallFigures {
                    tool: row.get(0)?,
                    source: row.get(1)?,
                    time_ms: row.get(2)?,
                    duration_us: row.get(3)?,
                    is_error: row.get::<_, String>(4)? == CallStatus::Error.as_str(),
                    is_undeclared: row.get(5)?,
                };
                self.sums.count_call(&call, -1);
            }
        }
        for (position, call) in record.calls.iter().enumerate() {
            let of = (trace.source, record.sender);
            let figures = self.call_figures(connection, call, of)?;
            self.sums.count_call(&figures, 1);
            if !is_shed {
                insert_call(connection, trace.seq, position, call, &figures)?;
            }
        }
        Ok(())
    }

    fn call_figures(
        &mut self,
        connection: &Connection,
        call: &CallRecord,
        (source, sender): (i64, Sender),
    ) -> rusqlite::Result<CallFigures> {
        let is_timed = call.start_ns > 0 && call.end_ns > 0;
        let lasted = call.end_ns.checked_sub(call.start_ns).filter(|_| is_timed);
        Ok(CallFigures {
            tool: self.names.tool(connection, (&call.tool, sender))?,
            source,
            time_ms: clamp(call.start_ns, self.now_ms),
            duration_us: lasted.map(micros),
            is_error: call.status == CallStatus::Error,
            is_undeclared: call.is_undeclared,
        })
    }

    fn evaluations(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        evaluations: &[Evaluation],
        bringer: Bringer<'_>,
    ) -> rusqlite::Result<()> {
        let Some(first) = evaluations.first() else { return Ok(()) };
        let target = &first.target;
        let mut trace = self.trace(connection, policy, placeholder(first, target, self.now_ms))?;
        let before = trace.counts;
        let shed_before = trace.shed;
        for evaluation in evaluations {
            self.evaluation(connection, policy, evaluation, bringer, &mut trace)?;
        }
        if trace.counts != before || trace.shed != shed_before {
            let [passed, failed, not_evaluable, broken] = trace.counts;
            let query = "UPDATE trajectories SET passed = ?2, failed = ?3, not_evaluable = ?4,
                broken = ?5, shed = ?6 WHERE seq = ?1";
            let values = params![trace.seq, passed, failed, not_evaluable, broken, trace.shed];
            run(connection, query, values)?;
        }
        self.keep(key(target), trace);
        Ok(())
    }

    fn evaluation(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        it: &Evaluation,
        bringer: Bringer<'_>,
        trace: &mut KnownTrace,
    ) -> rusqlite::Result<()> {
        let figures = EvaluationFigures::new(it, self.now_ms);
        let is_pass = figures.verdict == GivenVerdict::Pass;
        let client = bringer.client();
        let is_known = match (trace.evaluations.get(&it.id), client) {
            (Some(known), None) if known.is_collected() => {
                self.take_over(connection, it.id, trace)?;
                false
            }
            (known, _) => known.is_some(),
        };
        if is_known || (trace.is_repeat && trace.shed == SHED_ALL && is_pass) {
            self.counts.add(StoreCount::Repeated, 1);
            return Ok(());
        }
        let hash = client.map(|name| fingerprint(name.as_bytes()));
        if hash.is_some_and(|client| is_full_of(&trace.collected, client)) {
            self.counts.add(StoreCount::CollectedBeyond, 1);
            return Ok(());
        }
        let sender = it.target.sender;
        let evaluator = match client {
            Some(_) => self.names.evaluator_elsewhere(connection, &it.evaluator, sender)?,
            None => self.names.evaluator(connection, &it.evaluator)?,
        };
        let source = RunSource::of_target(&it.target);
        let source = self.names.source(connection, policy, (&source, sender))?;
        let is_current = match client {
            Some(_) => self.stands_collected(connection, it, trace)?,
            None => {
                self.retire_collected(connection, &it.evaluator.name, trace)?;
                self.supersede(connection, it, trace)?;
                !trace.revised.contains(&it.id)
            }
        };
        if is_current {
            self.sums.count((evaluator, source), &figures, 1);
            trace.counts[figures.verdict as usize] += 1;
        }
        if let Some(case) = &it.evaluator.case {
            let query = "INSERT OR IGNORE INTO cases VALUES (?1, ?2)";
            run(connection, query, params![trace.seq, cut(case)])?;
        }
        if bringer == Bringer::This(true) && is_pass {
            trace.shed = SHED_ALL;
            self.counts.add(StoreCount::ShedEvaluations, 1);
            return Ok(());
        }
        let tool = match it.evaluator.level {
            Level::Call => trace.tool(connection, it.span_id)?,
            _ => None,
        };
        let stored = self.now_ms;
        let place = EvaluationPlace { trace, evaluator, source, tool, is_current, stored, client };
        let seq = insert_evaluation(connection, policy, it, &figures, &place)?;
        self.counts.add(StoreCount::Evaluations, 1);
        self.counts.add(StoreCount::Collected, usize::from(client.is_some()));
        let known = KnownEvaluation { seq, is_current, client: hash, evaluator, source, figures };
        trace.add(it.id, it.revises, hash_of_name(&it.evaluator.name), known);
        Ok(())
    }

    /// Subtracts the evaluation replaced by this one from the sums, by its own values.
    fn supersede(
        &mut self,
        connection: &Connection,
        it: &Evaluation,
        trace: &mut KnownTrace,
    ) -> rusqlite::Result<()> {
        let Some(revised) = it.revises else { return Ok(()) };
        if !trace.evaluations.contains_key(&revised) {
            self.counts.add(StoreCount::Uncorrected, 1);
            return Ok(());
        }
        self.retire(connection, revised, trace)
    }

    /// Subtracts an evaluation from the sums and the current counts.
    pub(super) fn retire(
        &mut self,
        connection: &Connection,
        id: EvaluationId,
        trace: &mut KnownTrace,
    ) -> rusqlite::Result<()> {
        let Some(known) = trace.evaluations.get_mut(&id) else { return Ok(()) };
        if std::mem::replace(&mut known.is_current, false) {
            self.sums.count((known.evaluator, known.source), &known.figures, -1);
            trace.counts[known.figures.verdict as usize] -= 1;
            run(connection, "UPDATE evaluations SET current = 0 WHERE seq = ?1", [known.seq])?;
        }
        Ok(())
    }

    /// Finds a trace, or inserts a row that awaits its run.
    fn trace(
        &mut self,
        connection: &Connection,
        policy: &ContentPolicy,
        new: NewTrace<'_>,
    ) -> rusqlite::Result<KnownTrace> {
        if let Some(known) = self.traces.get(&new.trace) {
            return Ok(std::mem::take(known));
        }
        if let Some(found) = KnownTrace::find(connection, new.trace)? {
            return Ok(found);
        }
        let source = self.names.source(connection, policy, (&new.source, new.sender))?;
        let (trace_id, group) = new.trace;
        let session = match new.session_id {
            Some(id) => Some(add_turn(connection, (id, source, group), new.time_ms)?),
            None => None,
        };
        let seq = connection
            .prepare_cached(
                "INSERT INTO trajectories (trace_id, client_group, span_id, source, session, time,
                 stored, duration_us, revision, completion, partial, spans, calls, errors, passed,
                 failed, not_evaluable, broken)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, 0, 0, 0, 0, 0, 0, 0, 0)",
            )?
            .insert(params![
                trace_id.0,
                group.to_bytes(),
                new.span_id,
                source,
                session,
                new.time_ms,
                self.now_ms,
                AWAITED,
                Completion::Open.as_str()
            ])?;
        Ok(KnownTrace { seq, source, session, revision: AWAITED, ..KnownTrace::default() })
    }

    fn keep(&mut self, id: TraceKey, trace: KnownTrace) {
        let weight = trace.weight();
        self.traces.keep(id, trace, weight);
    }

    /// Forgets all known rows: some were deleted, or never committed.
    pub(super) fn forget(&mut self) {
        let mut names = std::mem::take(&mut self.names);
        names.forget();
        *self = Self { names, ..Self::new(self.now_ms) };
    }

    /// Advances the storing time.
    pub(super) fn not_before(&mut self, ms: i64) {
        self.now_ms = self.now_ms.max(ms);
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.now_ms
    }
}

fn key(target: &Target) -> TraceKey {
    (target.trace_id, target.sender.group)
}

fn placeholder<'a>(first: &'a Evaluation, target: &'a Arc<Target>, now_ms: i64) -> NewTrace<'a> {
    NewTrace {
        trace: key(target),
        span_id: &first.span_id.0,
        session_id: target.session_id.as_deref().map(cut),
        source: RunSource::of_target(target),
        sender: target.sender,
        time_ms: clamp(target.ended_ns, now_ms),
    }
}
