//! Tail sampling: requests held until their traces are decided, `(state, input, now) -> outputs`.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::WantedTraces;
use super::decisions::Decisions;
use super::split::ItemsByTrace;
use crate::forward::parcel::Load;
use crate::forward::progress::LogPlace;
use spanscore_base::model::{Sender, TraceId};
use spanscore_base::otlp::Signal;

/// Limit on partial releases of a request before all of it is decided.
const PARTS_MAX: u8 = 8;
/// Memory of one trace of a held request, beside the request, bytes.
pub(super) const HELD_TRACE_BYTES: usize = 160;

/// Limits on held requests and remembered decisions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HoldLimits {
    /// Longest wait of a request for decisions on its traces.
    pub(super) hold_ms: u64,
    /// Time for which a decision is remembered.
    pub(super) remember_ms: u64,
    /// Limit on remembered decisions.
    pub(super) decisions_max: usize,
}

/// ReleasedItems request, or a released part of it.
#[derive(Debug)]
pub(super) struct ReleasedRequest {
    pub(super) signal: Signal,
    pub(super) sender: Sender,
    pub(super) items: u64,
    /// Approximate body bytes of its items.
    pub(super) bytes: usize,
    pub(super) load: Load,
    pub(super) place: Option<LogPlace>,
    /// Traces to send of it.
    pub(super) wanted: Option<WantedTraces>,
}

/// Outcome of held items.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ReleasedItems {
    /// Items no longer held, by signal.
    pub(super) items: [u64; 3],
    /// Those of traces that are not passed on.
    pub(super) unchosen: [u64; 3],
    /// Those of traces that were not decided in time.
    pub(super) undecided: [u64; 3],
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum HeldState {
    Waiting,
    Chosen,
    Gone,
}

struct HeldRequest {
    signal: Signal,
    sender: Sender,
    load: Load,
    place: Option<LogPlace>,
    /// Traces by id, each with its number of items.
    traces: Vec<(TraceId, u64, HeldState)>,
    /// Items without a trace.
    without: u64,
    waiting: usize,
    parts: u8,
    is_dirty: bool,
    /// True if it has items without a trace, or was released in part: then it is never released
    /// whole.
    is_cut: bool,
}

/// Held requests and remembered decisions.
#[derive(Default)]
pub(super) struct Holding {
    limits: HoldLimits,
    next: u64,
    requests: HashMap<u64, HeldRequest>,
    /// Deadlines of the requests, in order.
    deadlines: VecDeque<(u64, u64)>,
    waiting: HashMap<TraceId, Vec<u64>>,
    decisions: Decisions,
    /// Requests with traces chosen since the last flush.
    dirty: Vec<u64>,
    pub(super) leaving: Vec<ReleasedRequest>,
    pub(super) released: ReleasedItems,
}

impl Holding {
    pub(super) fn new(limits: HoldLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns the memory of the remembered decisions, bytes.
    pub(super) fn decision_bytes(&self) -> usize {
        self.decisions.bytes()
    }

    /// Adds a sender's request; its items count as held.
    pub(super) fn add(
        &mut self,
        (signal, sender): (Signal, Sender),
        items: ItemsByTrace,
        load: Load,
        place: Option<LogPlace>,
        now_ms: u64,
    ) {
        let index = self.next;
        self.next += 1;
        self.release_unchosen(signal, items.without);
        let mut waiting = 0;
        let mut traces: Vec<_> = Vec::with_capacity(items.traces.len());
        for (sent_id, count) in items.traces {
            let trace = sender.group.key(sent_id);
            let state = match self.decisions.get(trace) {
                Some(true) => HeldState::Chosen,
                Some(false) => HeldState::Gone,
                None => HeldState::Waiting,
            };
            match state {
                HeldState::Waiting => {
                    waiting += 1;
                    self.waiting.entry(trace).or_default().push(index);
                }
                HeldState::Gone => self.release_unchosen(signal, count),
                HeldState::Chosen => {}
            }
            traces.push((trace, count, state));
        }
        traces.sort_unstable_by_key(|(trace, ..)| *trace);
        let is_dirty = traces.iter().any(|(_, _, state)| *state == HeldState::Chosen);
        let is_cut = items.without > 0;
        let request = HeldRequest {
            signal,
            sender,
            load,
            place,
            traces,
            without: items.without,
            waiting,
            parts: 0,
            is_dirty,
            is_cut,
        };
        self.requests.insert(index, request);
        if waiting == 0 {
            return self.leave(index);
        }
        if is_dirty {
            self.dirty.push(index);
        }
        self.deadlines.push_back((now_ms + self.limits.hold_ms, index));
    }

    /// Decides a sender's trace. A chosen trace stays chosen; a rejected one may be chosen later,
    /// for later requests.
    pub(super) fn decide(
        &mut self,
        (trace, sender): (TraceId, Sender),
        is_chosen: bool,
        now_ms: u64,
    ) {
        let until_ms = now_ms + self.limits.remember_ms;
        let is_chosen = self.decisions.decide((trace, sender), is_chosen, until_ms);
        for index in self.waiting.remove(&trace).unwrap_or_default() {
            self.mark(index, trace, is_chosen);
        }
        self.decisions.forget_beyond(self.limits.decisions_max, sender);
    }

    fn mark(&mut self, index: u64, trace: TraceId, is_chosen: bool) {
        let Some(request) = self.requests.get_mut(&index) else { return };
        let Ok(at) = request.traces.binary_search_by_key(&trace, |(id, ..)| *id) else { return };
        let (_, count, state) = &mut request.traces[at];
        let count = *count;
        let signal = request.signal;
        *state = if is_chosen { HeldState::Chosen } else { HeldState::Gone };
        request.waiting -= 1;
        let is_new = is_chosen && !request.is_dirty;
        request.is_dirty |= is_chosen;
        let is_decided = request.waiting == 0;
        if !is_chosen {
            self.release_unchosen(signal, count);
        }
        if is_decided {
            self.leave(index);
        } else if is_new {
            self.dirty.push(index);
        }
    }

    fn release_unchosen(&mut self, signal: Signal, items: u64) {
        self.released.items[signal as usize] += items;
        self.released.unchosen[signal as usize] += items;
    }

    /// Releases requests chosen since the last flush, and those past their deadline.
    pub(super) fn tick(&mut self, now_ms: u64) {
        for index in std::mem::take(&mut self.dirty) {
            if self.requests.get(&index).is_some_and(|it| it.is_dirty && it.parts < PARTS_MAX) {
                self.leave(index);
            }
        }
        while let Some((deadline_ms, index)) = self.deadlines.front().copied() {
            if deadline_ms > now_ms {
                break;
            }
            self.deadlines.pop_front();
            self.give_up(index);
        }
        self.decisions.forget_until(now_ms);
    }

    /// Counts undecided items as lost, and releases the rest.
    fn give_up(&mut self, index: u64) {
        let Some(request) = self.requests.get_mut(&index) else { return };
        let signal = request.signal as usize;
        for (trace, count, state) in &mut request.traces {
            if *state != HeldState::Waiting {
                continue;
            }
            *state = HeldState::Gone;
            self.released.items[signal] += *count;
            self.released.undecided[signal] += *count;
            if let Some(indexes) = self.waiting.get_mut(trace) {
                indexes.retain(|other| *other != index);
                if indexes.is_empty() {
                    self.waiting.remove(trace);
                }
            }
        }
        request.waiting = 0;
        self.leave(index);
    }

    /// Returns true if no request is held.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Sets the limits for later requests; held ones keep their deadlines.
    pub(super) fn limit(&mut self, limits: HoldLimits) {
        self.limits = limits;
    }

    /// Releases everything. Chosen traces are sent; undecided ones stay in the log with `is_left`,
    /// else they are lost.
    pub(super) fn end(&mut self, is_left: bool) {
        let indexes: Vec<u64> = self.requests.keys().copied().collect();
        for index in indexes {
            let stays = self.requests.get(&index).is_some_and(|request| {
                let place = request.place.as_ref().filter(|_| is_left && request.waiting > 0);
                place.inspect(|place| place.leave()).is_some()
            });
            if stays {
                // An undecided item counts as held: the next process decides.
                self.leave(index);
                self.requests.remove(&index);
            } else {
                self.give_up(index);
            }
        }
    }

    /// Releases the chosen traces of a request, and the request itself after the last of them.
    fn leave(&mut self, index: u64) {
        let Some(request) = self.requests.get_mut(&index) else { return };
        request.is_dirty = false;
        let is_whole = !request.is_cut
            && request.traces.iter().all(|(_, _, state)| *state == HeldState::Chosen);
        let mut items = 0;
        let mut chosen = Vec::new();
        for (trace, count, state) in &mut request.traces {
            if *state == HeldState::Chosen {
                *state = HeldState::Gone;
                items += *count;
                chosen.push(*trace);
            }
        }
        if !chosen.is_empty() {
            request.parts += 1;
            request.is_cut = true;
            let all =
                request.without + request.traces.iter().map(|(_, count, _)| count).sum::<u64>();
            let share = items as f64 / all.max(1) as f64;
            self.released.items[request.signal as usize] += items;
            self.leaving.push(ReleasedRequest {
                signal: request.signal,
                sender: request.sender,
                items,
                bytes: (request.load.bytes() as f64 * share) as usize,
                load: request.load.clone(),
                place: request.place.clone(),
                wanted: (!is_whole).then(|| WantedTraces::new(request.sender.group, chosen)),
            });
        }
        if request.waiting == 0 {
            self.requests.remove(&index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::forward::counters::ForwardCounters;
    use crate::forward::memory::ForwardMemory;
    use crate::forward::parcel::HeldBody;
    use bytes::Bytes;
    use spanscore_base::model::MemoryQuota;

    const LIMITS: HoldLimits = HoldLimits { hold_ms: 1000, remember_ms: 100, decisions_max: 3 };

    fn id(trace: u8) -> TraceId {
        TraceId([trace; 16])
    }

    fn add(holding: &mut Holding, traces: &[(u8, u64)], without: u64, now_ms: u64) {
        let counters = Arc::new(ForwardCounters::new("a"));
        let share = MemoryQuota::new("forward", 1 << 20);
        let memory = Arc::new(ForwardMemory::new(counters, share));
        let room = memory.room(1).unwrap();
        let body = HeldBody { bytes: Bytes::new(), coding: None, is_json: false, room };
        let traces = traces.iter().map(|(trace, count)| (id(*trace), *count)).collect();
        let items = ItemsByTrace { traces, without };
        let of = (Signal::Traces, Sender::default());
        holding.add(of, items, Load::Held(body), None, now_ms);
    }

    fn decide(holding: &mut Holding, trace: u8, is_chosen: bool, now_ms: u64) {
        holding.decide((id(trace), Sender::default()), is_chosen, now_ms);
    }

    /// Takes the released requests: items, and for a part its traces.
    fn leaving(holding: &mut Holding) -> Vec<(u64, Option<Vec<u8>>)> {
        let traces = |wanted: WantedTraces| wanted.keys.iter().map(|trace| trace.0[0]).collect();
        let all = std::mem::take(&mut holding.leaving).into_iter();
        all.map(|part| (part.items, part.wanted.map(traces))).collect()
    }

    fn released(holding: &mut Holding) -> (u64, u64, u64) {
        let ReleasedItems { items, unchosen, undecided } = std::mem::take(&mut holding.released);
        (items[0], unchosen[0], undecided[0])
    }

    #[test]
    fn request_leaves_whole_when_all_of_it_is_chosen() {
        let mut holding = Holding::new(LIMITS);
        add(&mut holding, &[(1, 2), (2, 3)], 0, 0);
        decide(&mut holding, 1, true, 0);
        assert_eq!(leaving(&mut holding), [], "its other trace may be chosen soon");
        decide(&mut holding, 2, true, 0);
        assert_eq!(leaving(&mut holding), [(5, None)]);
        assert_eq!(released(&mut holding), (5, 0, 0));
        assert!(holding.requests.is_empty() && holding.waiting.is_empty());
    }

    #[test]
    fn chosen_traces_leave_before_the_others_are_decided() {
        let mut holding = Holding::new(LIMITS);
        add(&mut holding, &[(1, 2), (2, 3), (3, 1)], 4, 0);
        assert_eq!(released(&mut holding), (4, 4, 0), "what belongs to no trace");
        decide(&mut holding, 2, true, 0);
        decide(&mut holding, 1, false, 0);
        holding.tick(1);
        assert_eq!(leaving(&mut holding), [(3, Some(vec![2]))]);
        assert_eq!(released(&mut holding), (5, 2, 0));
        decide(&mut holding, 3, true, 0);
        assert_eq!(leaving(&mut holding), [(1, Some(vec![3]))]);
        assert_eq!(released(&mut holding), (1, 0, 0));
        assert!(holding.requests.is_empty());
    }

    #[test]
    fn what_comes_late_follows_the_decision_while_it_is_remembered() {
        let mut holding = Holding::new(LIMITS);
        decide(&mut holding, 1, true, 0);
        decide(&mut holding, 2, false, 0);
        add(&mut holding, &[(1, 1)], 0, 50);
        add(&mut holding, &[(2, 1)], 0, 50);
        assert_eq!(leaving(&mut holding), [(1, None)]);
        assert_eq!(released(&mut holding), (2, 1, 0));
        decide(&mut holding, 2, true, 60);
        add(&mut holding, &[(2, 1)], 0, 60);
        assert_eq!(leaving(&mut holding), [(1, None)], "it failed with what came late");
        holding.tick(120);
        add(&mut holding, &[(1, 1), (2, 1)], 0, 120);
        holding.tick(121);
        assert_eq!(leaving(&mut holding), [(1, Some(vec![2]))], "the first is forgotten");
    }

    #[test]
    fn what_is_never_decided_is_given_up_and_counted() {
        let mut holding = Holding::new(LIMITS);
        add(&mut holding, &[(1, 1), (2, 4)], 0, 0);
        decide(&mut holding, 1, true, 900);
        holding.tick(1000);
        assert_eq!(leaving(&mut holding), [(1, Some(vec![1]))]);
        assert_eq!(released(&mut holding), (5, 0, 4));
        assert!(holding.waiting.is_empty() && holding.requests.is_empty());
    }

    #[test]
    fn parts_and_decisions_are_limited() {
        let mut holding = Holding::new(HoldLimits { decisions_max: 100, ..LIMITS });
        let traces: Vec<_> = (1..=50).map(|trace| (trace, 1)).collect();
        add(&mut holding, &traces, 0, 0);
        for trace in 1..=50 {
            decide(&mut holding, trace, true, 0);
            holding.tick(0);
        }
        let parts = leaving(&mut holding);
        assert_eq!(parts.len(), usize::from(PARTS_MAX) + 1);
        assert_eq!(parts.iter().map(|(items, _)| items).sum::<u64>(), 50);
        let mut holding = Holding::new(LIMITS);
        (1..=9).for_each(|trace| decide(&mut holding, trace, true, 0));
        assert_eq!(holding.decisions.count(), 3);
    }
}
