//! Usual presence of a service's parent spans, learnt from the ids in its traces.
//!
//! A trace judged without its root may be a paused run, whose parents are still open, so part of
//! its content is missing. Or its parents never come: they were dropped, or belong to a service
//! that sends its spans elsewhere. The former is assumed only if the service's latest trace with a
//! root held all parents, and its latest [`WHOLE_MAX`] none of another service.

use hashbrown::HashMap;

use spanscore_base::model::{SpanFlags, SpanId, SpanRecord, TraceSpans};

use super::{CompletionPolicy, LACKING_MAX, MISSES_MAX, ServiceKey, service_of_resource};

/// Limit on counted whole traces.
const WHOLE_MAX: u8 = 64;
/// Whole traces that allow one more trace without root and parents at a time.
const WHOLE_PER_LACKING: u8 = 8;

/// Presence of the parents of a service's spans.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct ParentHabit {
    /// Consecutive traces with a root that held all of them.
    whole: u8,
    /// Traces that lacked one when judged without their root, minus those whose root arrived later.
    lacking: u8,
    /// Remaining whole traces until a foreign parent without a remote flag is forgotten.
    foreign: u8,
}

impl ParentHabit {
    fn see(&mut self, seen: SeenParents) {
        if seen.foreign {
            self.foreign = WHOLE_MAX;
        }
    }

    fn usually_come(self) -> bool {
        let lacking_max = MISSES_MAX + self.whole / WHOLE_PER_LACKING;
        self.whole > 0 && self.lacking < lacking_max && self.foreign == 0
    }
}

/// Parents of one service's spans in a trace, without remote ones.
#[derive(Clone, Copy, Default)]
struct SeenParents {
    own: bool,
    foreign: bool,
    missing: bool,
}

/// Returns the parents in a trace by service of their children.
fn seen_parents(spans: &TraceSpans) -> Vec<(ServiceKey, SeenParents)> {
    let all = || spans.spans.iter().filter(|span| !span.flags.has(SpanFlags::LOG));
    let resources: HashMap<SpanId, u32> = all().map(|it| (it.span_id, it.resource)).collect();
    let name = |at: u32| spans.resources.get(at as usize).map(|it| &*it.service_name);
    let mut seen = vec![SeenParents::default(); spans.resources.len()];
    let is_here =
        |span: &&SpanRecord| !span.parent_id.is_none() && !span.flags.has(SpanFlags::REMOTE_PARENT);
    for span in all().filter(is_here) {
        let Some(seen) = seen.get_mut(span.resource as usize) else { continue };
        match resources.get(&span.parent_id) {
            None => seen.missing = true,
            Some(at) if *at == span.resource || name(*at) == name(span.resource) => seen.own = true,
            Some(_) => seen.foreign = true,
        }
    }
    let mut by_service: Vec<(ServiceKey, SeenParents)> = Vec::new();
    for (resource, seen) in spans.resources.iter().zip(seen) {
        let key = service_of_resource(spans, resource);
        match by_service.iter().position(|(known, _)| *known == key) {
            Some(at) => {
                let sum = &mut by_service[at].1;
                sum.own |= seen.own;
                sum.foreign |= seen.foreign;
                sum.missing |= seen.missing;
            }
            None if by_service.len() < LACKING_MAX => by_service.push((key, seen)),
            None => {}
        }
    }
    by_service
}

impl CompletionPolicy {
    /// Learns from a trace judged with its root; `is_back` if it lacked parents before.
    pub(crate) fn learn_parents(&mut self, spans: &TraceSpans, is_back: bool) {
        if spans.spans.len() < 2 {
            return;
        }
        for (service, seen) in seen_parents(spans) {
            let mut habit = self.habits(service).own_parents;
            habit.see(seen);
            if seen.missing {
                habit.whole = 0;
            } else if seen.own {
                habit.foreign = habit.foreign.saturating_sub((!seen.foreign).into());
                habit.whole = (habit.whole + 1).min(WHOLE_MAX);
                habit.lacking = habit.lacking.saturating_sub(is_back.into());
            }
            self.keep_parents(service, habit);
        }
    }

    /// Returns true if a trace judged without its root lacks parents that usually come. Learns from
    /// it, unless it is counted already.
    pub(crate) fn lacks_parents(&mut self, spans: &TraceSpans, is_counted: bool) -> bool {
        let mut lacks = false;
        for (service, seen) in seen_parents(spans) {
            let mut habit = self.habits(service).own_parents;
            habit.see(seen);
            if seen.missing && habit.usually_come() {
                lacks = true;
                habit.lacking += u8::from(!is_counted);
            }
            self.keep_parents(service, habit);
        }
        lacks
    }

    fn keep_parents(&mut self, service: ServiceKey, habit: ParentHabit) {
        if habit != self.habits(service).own_parents {
            self.change_habits(service, |habits| habits.own_parents = habit);
        }
    }
}
