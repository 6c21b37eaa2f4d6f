//! The order of a trace's calls, and which of them were made together.
//!
//! Calls that start in the same instant are one group: clocks that count milliseconds tell no more
//! of them. A call whose span is within another call's span follows that one all the same. Inside a
//! group the calls are listed by what the telemetry says: end, place in the model's message, name,
//! span. Who judges must not read an order into that.

use super::tree::{NONE, Tree, depths};
use crate::model::{Origin, ToolCall};

/// A trace's calls on their way into order.
pub(super) struct Together<'a> {
    calls: Vec<ToolCall<'a>>,
    places: Vec<CallPlace>,
}

/// Where a call was found.
#[derive(Clone, Copy)]
struct CallPlace {
    /// Place of its span.
    span: u32,
    /// Place among the calls that models asked for.
    requested: u32,
}

impl<'a> Together<'a> {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { calls: Vec::with_capacity(count), places: Vec::with_capacity(count) }
    }

    /// Adds a call: first those on spans, in the order of the spans, then those of messages.
    pub(super) fn add(&mut self, call: ToolCall<'a>, span: u32, requested: u32) {
        self.calls.push(call);
        self.places.push(CallPlace { span, requested });
    }

    /// The calls in order, with the numbers of their groups.
    pub(super) fn in_order(self, tree: &Tree<'a>) -> Vec<ToolCall<'a>> {
        let Self { mut calls, places } = self;
        if calls.array_windows().all(|[one, next]| one.start_ns < next.start_ns) {
            (1..).zip(&mut calls).for_each(|(number, call)| call.group = number);
            return calls;
        }
        let levels = levels(tree, &calls, &places);
        let ranks = levels.into_iter().zip(places);
        let mut ranked: Vec<_> = calls.into_iter().zip(ranks).collect();
        ranked.sort_by(|(one, (one_level, one_place)), (other, (other_level, other_place))| {
            let end = |call: &ToolCall<'_>| call.end_ns.wrapping_sub(1);
            one.start_ns
                .cmp(&other.start_ns)
                .then(one_level.cmp(other_level))
                .then_with(|| end(one).cmp(&end(other)))
                .then_with(|| one_place.requested.cmp(&other_place.requested))
                .then_with(|| one.name.cmp(&other.name))
                .then_with(|| one.span_id.cmp(&other.span_id))
        });
        let (mut number, mut last) = (0, None);
        let number = |(mut call, (level, _)): (ToolCall<'a>, (u32, CallPlace))| {
            let group = Some((call.start_ns, level));
            number += u32::from(last != group);
            last = group;
            call.group = number;
            call
        };
        ranked.into_iter().map(number).collect()
    }
}

/// For each call how many calls of its own instant it is within, one within the other.
fn levels(tree: &Tree<'_>, calls: &[ToolCall<'_>], places: &[CallPlace]) -> Vec<u32> {
    let mut call_on = vec![NONE; tree.spans.len()];
    for (at, (call, place)) in (0..).zip(calls.iter().zip(places)) {
        if call.origin == Origin::Span {
            call_on[place.span as usize] = at;
        }
    }
    let nearest = tree.inherit(|at| call_on.get(at as usize).copied().unwrap_or(NONE));
    let outer = |(call, place): (&ToolCall<'_>, &CallPlace)| {
        let around = match call.origin {
            Origin::Span => tree.get(place.span).map_or(NONE, |span| span.parent),
            Origin::Llm => place.span,
        };
        let outer = nearest.get(around as usize).copied().unwrap_or(NONE);
        let is_of_instant = |outer: &ToolCall<'_>| outer.start_ns == call.start_ns;
        if calls.get(outer as usize).is_some_and(is_of_instant) { outer } else { NONE }
    };
    depths(&calls.iter().zip(places).map(outer).collect::<Vec<_>>())
}
