//! Recovery of a shard: the traces of an earlier process, record by record, from a log.
//!
//! The shard's clock then follows the records: old traces are judged and forgotten again, so memory
//! use is as before. Known verdicts of the earlier process are not sent again. If the present
//! evidence differs from that of the earlier verdict, more records may follow, and the trace is not
//! judged until all are read.

use hashbrown::HashMap;

use super::super::trace::State;
use super::{Handle, Shard};
use spanscore_base::model::{Claims, NoteCell, SpanBatch, TraceId};

/// Last verdict of an earlier process on a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PriorVerdict {
    /// Number of judgements before it.
    pub revision: u32,
    /// Digest of the judged spans.
    pub digest: [u8; 16],
    /// Digest of the previous judgement, if any.
    pub revised: Option<[u8; 16]>,
    /// True if its evaluations were delivered everywhere.
    pub is_delivered: bool,
}

/// State of a trace in an earlier process.
#[derive(Clone, Debug)]
pub struct PriorTrace {
    /// Last verdict; `None` if some of its records are gone, since the earlier process had finished
    /// and forgotten the trace.
    pub verdict: Option<PriorVerdict>,
    /// Position of the trace's first relevant record; earlier ones were forgotten.
    pub first: u64,
    /// Notes on the verdict, tied to the trace's records as long as they are in the log.
    pub notes: NoteCell,
}

/// State of a recovery.
#[derive(Default)]
pub(super) struct Restoring {
    priors: HashMap<TraceId, PriorTrace>,
    /// True to make delivered traces due as well, for their sessions.
    repeats_known: bool,
    /// True after the last record: the remaining verdicts belong to reopened traces.
    is_over: bool,
}

/// Comparison of a trace with an earlier process's verdict.
pub(super) enum PriorMatch {
    /// No verdict, or a known one.
    Nothing,
    /// A verdict on the same evidence.
    This(PriorVerdict),
    /// A verdict on other evidence, of which more may follow.
    Other,
}

impl Shard {
    /// Begins a recovery, until [`resume`](Self::resume): old records follow. `repeats_known` makes
    /// traces due, silently, that need no new judgement.
    pub fn restore(&mut self, priors: HashMap<TraceId, PriorTrace>, repeats_known: bool) {
        self.restoring = Some(Restoring { priors, repeats_known, is_over: false });
    }

    /// Ends a recovery after the last old record. Open traces may still receive records from
    /// retrying senders, so their waits restart; traces not judged for lack of evidence are open
    /// again.
    pub fn resume(&mut self, now_ms: u64) {
        let Some(mut restoring) = self.restoring.take() else { return };
        restoring.priors.retain(|trace_id, prior| {
            let Some(&index) = self.by_id.get(trace_id) else { return false };
            let handle = self.handle_at(index);
            let Some(trace) = self.get_mut(handle) else { return false };
            let Some(prior) = prior.verdict else { return false };
            let is_other = trace.digest != u128::from_be_bytes(prior.digest);
            if is_other && matches!(trace.state, State::Judged(_)) {
                self.grown(handle, now_ms);
            }
            true
        });
        restoring.is_over = true;
        self.restoring = Some(restoring).filter(|restoring| !restoring.priors.is_empty());
        self.touched.clear();
        let open: Vec<Handle> = self.opened.iter().copied().collect();
        for handle in open {
            if let Some(trace) = self.get_mut(handle).filter(|trace| trace.is_open) {
                (trace.last_ms, trace.armed_ms) = (now_ms, u64::MAX);
                self.arm(handle);
            }
        }
    }

    /// Ties an earlier process's notes on a trace to one of its recovered records; returns true if
    /// the trace was forgotten after that record.
    pub(super) fn is_forgotten(&self, trace_id: TraceId, batch: &SpanBatch) -> bool {
        let restoring = self.restoring.as_ref().filter(|restoring| !restoring.is_over);
        let Some(prior) = restoring.and_then(|it| it.priors.get(&batch.sender.group.key(trace_id)))
        else {
            return false;
        };
        batch.claims.tie(&prior.notes);
        batch.claims.positions().next().is_some_and(|position| position < prior.first)
    }

    /// Returns the digest of a trace's records, and true if a limit excluded some.
    pub(super) fn evidence(&self, handle: Handle) -> Option<(u128, bool)> {
        self.get(handle).map(|trace| (trace.digest, trace.left_out.is_some()))
    }

    /// Returns the cell for notes on a trace.
    pub fn notes(&mut self, handle: Handle) -> NoteCell {
        self.get_mut(handle).map(|trace| trace.spans.claims.notes()).unwrap_or_default()
    }

    /// Returns true during a recovery.
    pub fn is_restoring(&self) -> bool {
        self.restoring.as_ref().is_some_and(|restoring| !restoring.is_over)
    }

    /// Returns the claims on the records that a restart would need for a trace.
    pub fn claims(&self, handle: Handle) -> Claims {
        self.get(handle).map(|trace| trace.spans.claims.clone()).unwrap_or_default()
    }

    /// Returns an earlier process's verdict on the judged trace, once.
    pub(super) fn prior_match(&mut self, handle: Handle) -> PriorMatch {
        let Some(trace) = self.get(handle) else { return PriorMatch::Nothing };
        let trace_id = trace.spans.trace_id;
        let digest = trace.digest;
        let Some(restoring) = &mut self.restoring else { return PriorMatch::Nothing };
        let Some(prior) = restoring.priors.get(&trace_id).and_then(|prior| prior.verdict) else {
            return PriorMatch::Nothing;
        };
        let prior_digest = u128::from_be_bytes(prior.digest);
        if prior_digest != digest && !restoring.is_over {
            return PriorMatch::Other;
        }
        restoring.priors.remove(&trace_id);
        if prior_digest == digest {
            return PriorMatch::This(prior);
        }
        // The verdict on other evidence is revised.
        if let Some(trace) = self.get_mut(handle) {
            trace.set_judged(Some((prior.revision.saturating_add(1), prior_digest)));
        }
        PriorMatch::Nothing
    }

    /// Returns true to make traces due that need no new judgement.
    pub(super) fn repeats_known(&self) -> bool {
        self.restoring.as_ref().is_some_and(|restoring| restoring.repeats_known)
    }
}
