//! Judgement: makes complete traces due, first or as a revision.

use super::super::shares::TraceClass;
use super::super::trace::State;
use super::restore::{PriorMatch, PriorVerdict};
use super::{Due, Handle, Shard};
use spanscore_base::model::Completion;

impl Shard {
    /// Completes a trace. Nothing is due if it was judged with the same spans before, or has no
    /// agent span.
    pub(super) fn judge(
        &mut self,
        handle: Handle,
        completion: Completion,
        now_ms: u64,
        due: &mut Vec<Due>,
    ) {
        let Some(trace) = self.get_mut(handle) else { return };
        let was_open = trace.is_open;
        trace.is_open = false;
        trace.armed_ms = u64::MAX;
        if trace.state == State::Open {
            trace.state = State::Judged(now_ms);
        }
        self.shares.put(handle.index, TraceClass::BeingJudged);
        let Some(trace) = self.get_mut(handle) else { return };
        let has_span = trace.tally.taken > 0;
        let is_agent = trace.is_agent;
        let judged = trace.judged();
        let ignored_trace = (trace.spans.trace_id, trace.spans.sender);
        let digest = trace.digest;
        let record_count = trace.spans.spans.len() as u64;
        if !is_agent {
            self.counts.spans.ignored += self.settle(handle);
        }
        let is_due = is_agent && has_span && judged.is_none_or(|(_, last)| last != digest);
        match is_due.then(|| self.prior_match(handle)) {
            Some(PriorMatch::Nothing) => self.push_due(handle, completion, due),
            Some(PriorMatch::This(prior)) => self.push_known(handle, completion, prior, due),
            Some(PriorMatch::Other) => self.remember(handle),
            None => self.done(handle),
        }
        self.open_count -= usize::from(was_open);
        if let (false, Some(ignored)) = (is_agent && has_span, &mut self.ignored) {
            ignored.push(ignored_trace);
        }
        if !has_span {
            self.counts.orphan_logs += record_count;
        } else if !is_agent {
            self.counts.without_agent += 1;
        }
    }

    /// Makes a trace due, as a revision if it was judged before.
    fn push_due(&mut self, handle: Handle, completion: Completion, due: &mut Vec<Due>) {
        let Some(trace) = self.get_mut(handle) else { return };
        let judged = trace.judged();
        let digest = trace.digest;
        let count = judged.map_or(1, |(count, _)| count.saturating_add(1));
        trace.set_judged(Some((count, digest)));
        due.push(Due {
            handle,
            completion,
            revision: judged.map_or(0, |(count, _)| count),
            digest: digest.to_be_bytes(),
            revised: judged.map(|(_, digest)| digest.to_be_bytes()),
            is_partial: trace.is_partial_at(completion),
            is_silent: false,
        });
    }

    /// Makes a trace due as for an earlier process, unless that delivered its evaluations and no
    /// session needs it.
    fn push_known(
        &mut self,
        handle: Handle,
        completion: Completion,
        prior: PriorVerdict,
        due: &mut Vec<Due>,
    ) {
        let repeats_known = self.repeats_known();
        let Some(trace) = self.get_mut(handle) else { return };
        trace.set_judged(Some((prior.revision.saturating_add(1), trace.digest)));
        let is_partial = trace.is_partial_at(completion);
        if prior.is_delivered && !repeats_known {
            return self.done(handle);
        }
        let PriorVerdict { revision, digest, revised, is_delivered: is_silent } = prior;
        due.push(Due { handle, completion, revision, digest, revised, is_partial, is_silent });
    }
}
