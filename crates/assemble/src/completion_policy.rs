//! Adaptive completion: the shortest useful wait for a trace whose root has ended.
//!
//! A trace without known gaps is complete after [`WHOLE_MS`]. Otherwise it waits for missing parts:
//! a parent that its own service has not sent yet, a span that has not ended, the spans of another
//! process that a call announces, or those that have followed earlier traces of its service. Spans
//! that never came are not waited for again, and the lateness of earlier spans bounds the wait.
//! Both are learnt per service, since each exports in batches at its own interval, and per client
//! group, since service names are unique only within one.
//!
//! A parent that the span's flags call remote does not count as missing: it belongs to another
//! process, which may send its spans elsewhere.

mod parents;

use hashbrown::HashSet;
use smart_default::SmartDefault;

use spanscore_base::model::{
    ClientGroup, Recent, Resource, SpanFlags, SpanId, SpanRecord, TraceSpans, fingerprint,
};

use parents::ParentHabit;

/// Wait of a trace without gaps after its root ended, milliseconds.
pub(super) const WHOLE_MS: u64 = 1_000;
/// Limit on services with learnt habits; beyond it the least recently met are forgotten.
pub(super) const SERVICES_MAX: usize = 1_024;
/// Limit on called peers with learnt habits; forgotten likewise.
pub(super) const PEERS_MAX: usize = 4_096;
/// Limit on consecutive vain waits for spans that never came.
const MISSES_MAX: u8 = 3;
/// Limit on consecutive vain waits for spans that came before.
const KNOWN_MISSES_MAX: u8 = 8;
/// Limit on missing services and peers of one trace; others are ignored.
const LACKING_MAX: usize = 32;
/// Decay of the known lateness: each earlier arrival reduces it by one part in this many.
const FADING: u64 = 32;
/// Margin over the known lateness, milliseconds: a tick, and time in transit.
const MARGIN_MS: u64 = 500;

/// Record of arrivals and vain waits, which decides about the next wait.
#[derive(Clone, Copy, Default, Debug)]
struct Lateness {
    /// True if it came at least once.
    is_known: bool,
    /// Consecutive vain waits.
    misses: u8,
}

impl Lateness {
    fn is_worth(self) -> bool {
        self.misses < if self.is_known { KNOWN_MISSES_MAX } else { MISSES_MAX }
    }

    fn arrived(&mut self) {
        *self = Self { is_known: true, misses: 0 };
    }

    fn missed(&mut self) {
        self.misses = self.misses.saturating_add(1);
    }
}

/// Client group of a service, and the number of its name.
type ServiceKey = (ClientGroup, u32);

/// Lateness and habits of traces with a service's root.
#[derive(Clone, Copy, Default, Debug)]
struct ServiceHabits {
    /// Greatest lateness of its spans after the end of the root, decaying, milliseconds; 0 if
    /// unknown.
    own_late_ms: u64,
    /// Greatest lateness of other services' spans, likewise.
    others_late_ms: u64,
    /// Arrivals of parents later than their spans.
    parents: Lateness,
    /// Arrivals of other services' spans after the root.
    others: Lateness,
    /// Presence of its spans' parents, by their ids only.
    own_parents: ParentHabit,
}

/// Service and the number of a called peer.
type PeerKey = (ServiceKey, u32);

/// Missing parts of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Services with spans without parents.
    parents: Vec<ServiceKey>,
    /// True if a span has not ended.
    pending: bool,
    /// Calls without a span of their peer, by service and peer number.
    peers: Vec<PeerKey>,
    /// True if other services' spans are missing that usually follow.
    others: bool,
    /// True if something is certainly missing.
    pub(super) is_certain: bool,
}

impl Missing {
    /// Returns true if nothing is missing.
    pub(super) fn is_nothing(&self) -> bool {
        self.parents.is_empty() && !self.pending && self.peers.is_empty() && !self.others
    }
}

/// Completion policy of a shard, with everything learnt about senders.
#[derive(SmartDefault)]
pub(super) struct CompletionPolicy {
    #[default(Recent::new(SERVICES_MAX))]
    services: Recent<ServiceKey, ServiceHabits>,
    #[default(Recent::new(PEERS_MAX))]
    peers: Recent<PeerKey, Lateness>,
}

/// Returns the service of the record at an index.
fn service_of(spans: &TraceSpans, at: usize) -> ServiceKey {
    let resource = spans.spans.get(at).and_then(|span| spans.resources.get(span.resource as usize));
    resource.map_or((spans.group(), 0), |resource| service_of_resource(spans, resource))
}

/// Returns the service of a resource of a trace.
fn service_of_resource(spans: &TraceSpans, resource: &Resource) -> ServiceKey {
    (spans.group(), fingerprint(resource.service_name.as_bytes()))
}

/// Returns the model spans: those of an agent or a model without an agent, model or tool below.
fn models_of(spans: &TraceSpans) -> HashSet<SpanId> {
    let is_any =
        |span: &&SpanRecord| span.flags.has(SpanFlags::AGENT) || span.flags.has(SpanFlags::TOOL);
    let at_work: HashSet<_> = spans.spans.iter().filter(is_any).map(|it| it.parent_id).collect();
    let is_model = |span: &&SpanRecord| {
        let is_agent = span.flags.has(SpanFlags::AGENT) && !span.flags.has(SpanFlags::ROOT);
        is_agent && !at_work.contains(&span.span_id)
    };
    spans.spans.iter().filter(is_model).map(|span| span.span_id).collect()
}

/// Returns the index of the root.
fn root_of(spans: &TraceSpans) -> Option<usize> {
    spans.spans.iter().position(|span| span.flags.has(SpanFlags::ROOT | SpanFlags::ENDED))
}

/// End of the root of a trace.
#[derive(Clone, Copy)]
pub(super) struct RootEnd {
    /// Arrival, milliseconds.
    pub(super) ms: u64,
    place: RootPlace,
}

impl RootEnd {
    /// Returns an end that arrived at this time.
    pub(super) fn at(ms: u64) -> Self {
        Self { ms, place: RootPlace::default() }
    }
}

/// Cached index of the root. Requests add records one batch at a time, and each search would visit
/// all of them.
#[derive(Clone, Copy, Default)]
enum RootPlace {
    /// Not searched for yet.
    #[default]
    Unknown,
    /// Index of the record.
    At(u32),
    /// Not among the records.
    Nowhere,
}

impl RootPlace {
    /// Returns the index of the root, searched for once.
    fn of(&mut self, spans: &TraceSpans) -> Option<usize> {
        if let Self::Unknown = self {
            let found = root_of(spans).and_then(|at| u32::try_from(at).ok());
            *self = found.map_or(Self::Nowhere, Self::At);
        }
        match self {
            Self::At(at) => Some(*at as usize).filter(|at| *at < spans.spans.len()),
            _ => None,
        }
    }
}

impl CompletionPolicy {
    /// Returns the missing parts, worth a wait, of a trace whose root has ended.
    pub(super) fn missing_parts(&mut self, spans: &TraceSpans) -> Missing {
        let mut missing = Missing::default();
        let Some(root) = root_of(spans) else { return missing };
        let root_service = service_of(spans, root);
        let is_span = |flags: SpanFlags| !flags.has(SpanFlags::LOG);
        let all = || spans.spans.iter().enumerate().filter(|(_, span)| is_span(span.flags));
        let ids: HashSet<_> = all().map(|(_, span)| span.span_id).collect();
        let parents: HashSet<_> = all().map(|(_, span)| span.parent_id).collect();
        let models = models_of(spans);
        let mut is_alone = true;
        for (at, span) in all() {
            let service = service_of(spans, at);
            is_alone &= service == root_service;
            missing.pending |= !span.flags.has(SpanFlags::ENDED);
            let has_parent = span.parent_id.is_none()
                || span.flags.has(SpanFlags::REMOTE_PARENT)
                || ids.contains(&span.parent_id);
            if !has_parent
                && self.habits(service).parents.is_worth()
                && missing.parents.len() < LACKING_MAX
                && !missing.parents.contains(&service)
            {
                missing.parents.push(service);
            }
            // A span below a model's span is the call of the model itself.
            let calls = span.peer != 0 && !models.contains(&span.parent_id);
            if calls && !parents.contains(&span.span_id) && missing.peers.len() < LACKING_MAX {
                let habit = self.peers.get(&(service, span.peer)).copied().unwrap_or_default();
                if habit.is_worth() {
                    missing.peers.push((service, span.peer));
                    missing.is_certain |= habit.is_known;
                }
            }
        }
        let others = self.habits(root_service).others;
        missing.others = is_alone && others.is_known && others.is_worth();
        missing.is_certain |= missing.others || missing.pending || !missing.parents.is_empty();
        missing
    }

    /// Returns the wait for the missing parts after the last arrival, milliseconds, at most
    /// `most_ms`.
    pub(super) fn wait_ms(&mut self, spans: &TraceSpans, missing: &Missing, most_ms: u64) -> u64 {
        let Some(root) = root_of(spans) else { return most_ms };
        let habits = self.habits(service_of(spans, root));
        let is_elsewhere = missing.others || !missing.peers.is_empty();
        match if is_elsewhere { habits.others_late_ms } else { habits.own_late_ms } {
            0 => most_ms,
            late_ms => (late_ms + late_ms / 4 + MARGIN_MS).min(most_ms),
        }
    }

    /// Learns the lateness of records that arrived after the end of the root.
    pub(super) fn learn_lateness(&mut self, spans: &TraceSpans, end: &mut RootEnd, late_ms: u64) {
        let Some(root) = end.place.of(spans) else { return };
        let root = service_of(spans, root);
        let last = service_of(spans, spans.spans.len() - 1);
        self.change_habits(root, |habits| {
            let known_ms = if root == last {
                &mut habits.own_late_ms
            } else {
                habits.others.arrived();
                &mut habits.others_late_ms
            };
            *known_ms = late_ms.max(*known_ms - *known_ms / FADING);
        });
    }

    /// Learns from a judged trace: `missing` holds the parts that it waited for in vain, if any.
    pub(super) fn learn(&mut self, spans: &TraceSpans, missing: Option<&Missing>) {
        if let Some(missing) = missing {
            for service in &missing.parents {
                self.change_habits(*service, |habits| habits.parents.missed());
            }
            missing.peers.iter().for_each(|peer| self.change_peer(*peer, Lateness::missed));
            if let (true, Some(root)) = (missing.others, root_of(spans)) {
                self.change_habits(service_of(spans, root), |habits| habits.others.missed());
            }
        }
        // Most traces call no peer.
        if spans.spans.iter().all(|span| span.peer == 0) {
            return;
        }
        let remote = spans.spans.iter().filter(|span| span.flags.has(SpanFlags::REMOTE_PARENT));
        let parents: HashSet<_> = remote.map(|span| span.parent_id).collect();
        for (at, span) in spans.spans.iter().enumerate().filter(|(_, span)| span.peer != 0) {
            if parents.contains(&span.span_id) {
                self.change_peer((service_of(spans, at), span.peer), Lateness::arrived);
            }
        }
    }

    /// Returns the numbers of services and peers with learnt habits.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.services.len(), self.peers.len())
    }

    /// Returns the number of services and peers forgotten since the last call.
    pub(super) fn take_forgotten(&mut self) -> u64 {
        self.services.take_forgotten() + self.peers.take_forgotten()
    }

    fn habits(&mut self, service: ServiceKey) -> ServiceHabits {
        self.services.get(&service).copied().unwrap_or_default()
    }

    fn change_habits(&mut self, service: ServiceKey, change: impl FnOnce(&mut ServiceHabits)) {
        let mut habits = self.habits(service);
        change(&mut habits);
        self.services.keep(service, habits, 1);
    }

    fn change_peer(&mut self, peer: PeerKey, change: impl FnOnce(&mut Lateness)) {
        let mut habit = self.peers.get(&peer).copied().unwrap_or_default();
        change(&mut habit);
        self.peers.keep(peer, habit, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::model::{Sender, TraceId};

    fn trace(roots: &[bool]) -> TraceSpans {
        let mut trace = TraceSpans::default();
        for is_root in roots {
            let mut flags = SpanFlags::default();
            if *is_root {
                flags.set(SpanFlags::ROOT | SpanFlags::ENDED);
            }
            trace.spans.push(SpanRecord {
                span_id: SpanId::default(),
                parent_id: SpanId::default(),
                start_ns: 0,
                end_ns: 0,
                content: 0,
                peer: 0,
                flags,
                resource: 0,
                facts: 0..0,
            });
        }
        trace
    }

    #[test]
    fn learnt_waits_are_separate_for_client_groups() {
        let of = |group| {
            let mut trace = trace(&[true, false]);
            let sender = Sender::of_group(ClientGroup::named(group));
            trace.grouped = TraceSpans::of(sender, TraceId([1; 16])).grouped;
            trace.spans[1].parent_id = SpanId([7; 8]);
            trace.spans[1].flags.set(SpanFlags::ENDED);
            trace
        };
        let mut policy = CompletionPolicy::default();
        for _ in 0..MISSES_MAX {
            let missing = policy.missing_parts(&of("one"));
            policy.learn(&of("one"), Some(&missing));
        }
        assert!(policy.missing_parts(&of("one")).is_nothing());
        assert!(!policy.missing_parts(&of("other")).is_nothing());
    }

    #[test]
    fn root_is_looked_for_once_however_much_comes_behind_it() {
        let mut place = RootPlace::default();
        assert_eq!(place.of(&trace(&[false, false, true, false])), Some(2));
        assert_eq!(place.of(&trace(&[true, false, false, false])), Some(2));
        let mut place = RootPlace::default();
        assert_eq!(place.of(&trace(&[false])), None);
        assert_eq!(place.of(&trace(&[false, true])), None, "it was left out");
    }
}
