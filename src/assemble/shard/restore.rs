//! Bringing a shard back to where an earlier process left it, record by record, from a log.
//!
//! The clock of the shard is then that of the records: what was judged long ago is judged and
//! forgotten again, so that no more is held at once than was then. What the earlier process has
//! said of a trace is known, and is not said again; where the evidence at hand is not the one it
//! spoke of, more of the trace may be to come, and nothing is said until all records are back.

use hashbrown::HashMap;

use super::super::trace::State;
use super::{Handle, Shard};
use crate::model::{Claims, TraceId};

/// What an earlier process said of a trace last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PriorVerdict {
    /// How often it had judged it before.
    pub revision: u32,
    /// The hash of the spans that it judged it on.
    pub digest: [u8; 16],
    /// The hash it had judged it on before.
    pub revised: Option<[u8; 16]>,
    /// Its evaluations have arrived where they must.
    pub is_delivered: bool,
}

/// What a shard knows while it is brought back.
#[derive(Default)]
pub(super) struct Restoring {
    priors: HashMap<TraceId, PriorVerdict>,
    /// Traces whose evaluations arrived are due as well, to be known to their sessions.
    tells_known: bool,
    /// All is back: what is left was said of traces that are open again.
    is_over: bool,
}

/// Whether an earlier process has judged a trace on the same evidence.
pub(super) enum SaidBefore {
    /// It has not judged the trace at all, or what it said is known already.
    Nothing,
    /// It has: this is what it said.
    This(PriorVerdict),
    /// It has judged it on other evidence, and more of that may be to come.
    Other,
}

impl Shard {
    /// From now on takes records of the past, until [`resume`](Self::resume). Where `tells_known`,
    /// traces that need not be judged again are due nevertheless, and silent.
    pub fn restore(&mut self, priors: HashMap<TraceId, PriorVerdict>, tells_known: bool) {
        self.restoring = Some(Restoring { priors, tells_known, is_over: false });
    }

    /// All records of the past are back. What is open may still get more from senders that try
    /// again, so its waits begin anew; what nothing was said of for want of evidence is open again.
    pub fn resume(&mut self, now_ms: u64) {
        let Some(mut restoring) = self.restoring.take() else { return };
        restoring.priors.retain(|trace_id, prior| {
            let Some(&index) = self.by_id.get(trace_id) else { return false };
            let handle = Handle { index, generation: self.places[index as usize].generation };
            let Some(trace) = self.get_mut(handle) else { return false };
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

    /// Whether records of the past are being taken.
    pub fn is_restoring(&self) -> bool {
        self.restoring.as_ref().is_some_and(|restoring| !restoring.is_over)
    }

    /// What records a trace needs again should the process end.
    pub fn claims(&self, handle: Handle) -> Claims {
        self.get(handle).map(|trace| trace.spans.claims.clone()).unwrap_or_default()
    }

    /// What an earlier process said of a trace that is judged now; it is asked once.
    pub(super) fn said_before(&mut self, handle: Handle) -> SaidBefore {
        let Some(trace) = self.get(handle) else { return SaidBefore::Nothing };
        let trace_id = trace.spans.trace_id;
        let digest = trace.digest;
        let Some(restoring) = &mut self.restoring else { return SaidBefore::Nothing };
        let Some(prior) = restoring.priors.get(&trace_id).copied() else {
            return SaidBefore::Nothing;
        };
        let prior_digest = u128::from_be_bytes(prior.digest);
        if prior_digest != digest && !restoring.is_over {
            return SaidBefore::Other;
        }
        restoring.priors.remove(&trace_id);
        if prior_digest == digest {
            return SaidBefore::This(prior);
        }
        // What was said of less is revised.
        if let Some(trace) = self.get_mut(handle) {
            trace.set_judged(Some((prior.revision.saturating_add(1), prior_digest)));
        }
        SaidBefore::Nothing
    }

    /// Whether a trace is due although it need not be judged again.
    pub(super) fn tells_known(&self) -> bool {
        self.restoring.as_ref().is_some_and(|restoring| restoring.tells_known)
    }
}
