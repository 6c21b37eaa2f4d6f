//! Order of a trace's calls, and detection of parallel groups.
//!
//! Evidence has this precedence, and is combined with disjoint sets:
//!
//! 1. Calls of one model message are one group.
//! 2. Calls without a message are one group if one agent made them between two of its model calls
//!    ([`turns`]); without model spans of the agent, if they overlap in time.
//! 3. Calls with equal start times are one group, since a millisecond clock cannot order them.
//!
//! A message orders its calls whatever their machine's clock says ([`clocks`]). Successive runs of
//! one request are attempts, each a group of its own, in order.
//!
//! Exceptions: a call on a span within another call's span follows that call. Several messages in
//! one list, on a span around the calls, are successive rounds unless their calls overlap. A
//! message is no evidence if the agent made other calls between its calls, as it is not one reply.
//!
//! Within a group the calls have the message's order; without a message they are ordered by start,
//! end, name and span, independent of arrival. Evaluators must not interpret it as an order of
//! execution.

mod clocks;
mod sets;
mod turns;

use hashbrown::{HashMap, HashSet};

use self::sets::Sets;
use super::gather::Gathered;
use super::messages::Asked;
use super::tree::{NONE, Tree, depths};
use spanscore_base::model::{Origin, ToolCall};

/// Calls of a trace to be grouped and sorted.
pub(super) struct CallGrouping<'a> {
    calls: Vec<ToolCall<'a>>,
    places: Vec<CallPlace>,
}

/// Evidence for the position of a call.
#[derive(Clone, Copy)]
struct CallPlace {
    /// Index of its span.
    span: u32,
    /// Model message with its request.
    asked: Asked,
}

impl<'a> CallGrouping<'a> {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { calls: Vec::with_capacity(count), places: Vec::with_capacity(count) }
    }

    /// Adds a call: first those on spans in span order, then those of messages.
    pub(super) fn add(&mut self, call: ToolCall<'a>, span: u32, asked: Asked) {
        let message_place = Some(asked.order).filter(|_| asked.message != NONE);
        self.calls.push(ToolCall { message_place, ..call });
        self.places.push(CallPlace { span, asked });
    }

    /// Returns the calls in order, with their group numbers; `agents` are the indices of the spans
    /// that name each span's agent.
    pub(super) fn in_order(
        self,
        tree: &Tree<'a>,
        gathered: &Gathered<'a>,
        agents: &[u32],
    ) -> Vec<ToolCall<'a>> {
        let Self { mut calls, places } = self;
        if calls.len() < 2 {
            calls.iter_mut().for_each(|call| call.group = 1);
            return calls;
        }
        clocks::mend(&mut calls, &places);
        let nest = Nest::new(tree, &calls, &places);
        let mut sets = Sets::new(calls.len());
        join_messages(&calls, &places, &mut sets);
        turns::join(tree, gathered, agents, &nest, &calls, &places, &mut sets);
        join_instants(&calls, &mut sets);
        let groups = groups(&calls, &places, &nest, &mut sets);
        let mut order: Vec<u32> = (0..calls.len() as u32).collect();
        order.sort_by(|one, other| {
            let one_at = *one as usize;
            let other_at = *other as usize;
            let one = &calls[one_at];
            let other = &calls[other_at];
            let end = |call: &ToolCall<'_>| call.end_ns.wrapping_sub(1);
            groups[one_at]
                .cmp(&groups[other_at])
                .then_with(|| places[one_at].asked.order.cmp(&places[other_at].asked.order))
                .then_with(|| one.start_ns.cmp(&other.start_ns))
                .then_with(|| end(one).cmp(&end(other)))
                .then_with(|| one.name.cmp(&other.name))
                .then_with(|| one.span_id.cmp(&other.span_id))
        });
        let mut number = 0;
        let mut last = None;
        for &at in &order {
            let group = Some(groups[at as usize]);
            number += u32::from(last != group);
            last = group;
            calls[at as usize].group = number;
        }
        // They are usually sorted already, which saves moving each large call.
        if order.is_sorted() {
            return calls;
        }
        let mut calls: Vec<_> = calls.into_iter().map(Some).collect();
        order.into_iter().filter_map(|at| calls[at as usize].take()).collect()
    }
}

/// Nesting of calls.
struct Nest {
    /// For each span the index of the call on it or on its nearest ancestor.
    nearest: Vec<u32>,
    /// For each call the index of the call whose span encloses its span.
    outer: Vec<u32>,
}

impl Nest {
    fn new(tree: &Tree<'_>, calls: &[ToolCall<'_>], places: &[CallPlace]) -> Self {
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
            nearest.get(around as usize).copied().unwrap_or(NONE)
        };
        let outer = calls.iter().zip(places).map(outer).collect();
        Self { nearest, outer }
    }

    /// Returns the call whose span encloses a span, excluding the call on it.
    fn around(&self, tree: &Tree<'_>, span: u32) -> u32 {
        let parent = tree.get(span).map_or(NONE, |span| span.parent);
        self.nearest.get(parent as usize).copied().unwrap_or(NONE)
    }
}

/// Joins the calls of one message.
fn join_messages(calls: &[ToolCall<'_>], places: &[CallPlace], sets: &mut Sets) {
    let asked = |at: &u32| places[*at as usize].asked.message;
    let is_told = |at: &u32| asked(at) != NONE;
    let mut asked_for: Vec<u32> = (0..places.len() as u32).filter(is_told).collect();
    asked_for.sort_by_key(asked);
    if asked_for.array_windows().all(|[one, next]| asked(one) != asked(next)) {
        return;
    }
    let mixed = mixed_messages(calls, places);
    asked_for.retain(|at| !mixed.contains(&asked(at)));
    sets.join_runs(&asked_for, |one, next| {
        asked(&one) == asked(&next) && !is_later_round(calls, places, one as usize, next as usize)
    });
}

/// Returns true if a call follows its predecessor in a list of several model messages: an agent's
/// span around its calls has all messages of the model, round by round.
fn is_later_round(calls: &[ToolCall<'_>], places: &[CallPlace], one: usize, next: usize) -> bool {
    let is_within = |at: usize| {
        calls[at].origin == Origin::Span && calls[at].start_ns < places[at].asked.time_ns
    };
    places[one].asked.part != places[next].asked.part
        && is_within(one)
        && is_within(next)
        && calls[one].end_ns.wrapping_sub(1) < calls[next].start_ns
}

/// Returns the messages with remains of an earlier one: their calls started before the reply
/// existed, and between two of them the same agent made another call that is not theirs. An
/// instrumentation that writes every reply of a run to one span overwrites only a part of the last
/// reply.
fn mixed_messages(calls: &[ToolCall<'_>], places: &[CallPlace]) -> HashSet<u32> {
    let mut order: Vec<usize> =
        (0..calls.len()).filter(|at| calls[*at].origin == Origin::Span).collect();
    order.sort_by_key(|at| (calls[*at].start_ns, calls[*at].end_ns));
    let message = |at: usize| places[at].asked.message;
    // An end of 0 means not ended, and wraps to the latest time.
    let end = |at: usize| calls[at].end_ns.wrapping_sub(1);
    let mut last_of: HashMap<u32, usize> = HashMap::new();
    let mut mixed = HashSet::new();
    let mut previous = None;
    for at in order {
        let earlier = last_of.insert(message(at), at).filter(|_| message(at) != NONE);
        let before = previous.replace(at);
        if let (Some(earlier), Some(other)) = (earlier, before) {
            let is_between = places[at].asked.time_ns > calls[at].start_ns
                && calls[other].start_ns > end(earlier)
                && end(other) < calls[at].start_ns
                && calls[other].agent == calls[at].agent;
            if other != earlier && message(other) != message(at) && is_between {
                mixed.insert(message(at));
            }
        }
    }
    mixed
}

/// Joins the calls on spans with equal start times. Calls that only messages have share the time of
/// the answer, which is no evidence.
fn join_instants(calls: &[ToolCall<'_>], sets: &mut Sets) {
    if calls.array_windows().all(|[one, next]| one.start_ns < next.start_ns) {
        return;
    }
    let start = |at: &u32| calls[*at as usize].start_ns;
    let is_on_span = |at: &u32| calls[*at as usize].origin == Origin::Span;
    let mut by_start: Vec<u32> = (0..calls.len() as u32).filter(is_on_span).collect();
    by_start.sort_by_key(start);
    sets.join_runs(&by_start, |one, next| start(&one) == start(&next));
}

/// Sort key of a group: its start, its depth in other groups, the order of its message, and its
/// rank by its first call.
type GroupKey = (u64, u32, u32, u32);

/// Returns the group of each call: its set, split so that a call follows its enclosing calls.
///
/// A group is a set and a level, the number of enclosing calls in the same set. Recursion thus
/// splits a set into a group per level, while siblings stay together at any depth. Starts and
/// depths are then raised from outer to inner groups, so that an inner group sorts after the outer
/// one even if both start together, or if another of its calls started earlier.
fn groups(
    calls: &[ToolCall<'_>],
    places: &[CallPlace],
    nest: &Nest,
    sets: &mut Sets,
) -> Vec<GroupKey> {
    let set_of: Vec<u32> = (0..calls.len() as u32).map(|at| sets.of(at)).collect();
    // For each call the nearest enclosing call in the same set.
    let mut within = vec![NONE; calls.len()];
    let all = depths(&nest.outer);
    let mut outer_first: Vec<u32> = (0..calls.len() as u32).collect();
    outer_first.sort_by_key(|at| all[*at as usize]);
    for &at in &outer_first {
        let mut outer = nest.outer[at as usize];
        for _ in 0..DEPTH_MAX {
            if outer == NONE || set_of[outer as usize] == set_of[at as usize] {
                break;
            }
            outer = nest.outer[outer as usize];
        }
        let same = outer != NONE && set_of[outer as usize] == set_of[at as usize];
        within[at as usize] = if same { outer } else { NONE };
    }
    let levels = depths(&within);
    let tries = tries(calls, places);
    let mut known = HashMap::new();
    let mut group_of = vec![0_u32; calls.len()];
    let mut begun: Vec<(u64, u32, u32)> = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let next = begun.len() as u32;
        let group = *known.entry((set_of[at], levels[at], tries[at])).or_insert(next);
        if group == next {
            begun.push((u64::MAX, 0, NONE));
        }
        group_of[at] = group;
        let (begin, _, order) = &mut begun[group as usize];
        let asked = places[at].asked;
        let own = match asked.time_ns {
            0 => call.start_ns,
            _ if tries[at] > 0 => call.start_ns,
            time_ns => call.start_ns.min(time_ns),
        };
        *begin = (*begin).min(own);
        *order = (*order).min(asked.order);
    }
    // Outer calls first, so that a raised start reaches all inner groups.
    for &at in &outer_first {
        let outer = nest.outer[at as usize];
        let (inner, outer) = match group_of.get(outer as usize) {
            Some(outer) if *outer != group_of[at as usize] => {
                (group_of[at as usize] as usize, begun[*outer as usize])
            }
            _ => continue,
        };
        let (begin, depth, _) = &mut begun[inner];
        (*begin, *depth) = ((*begin).max(outer.0), (*depth).max(outer.1 + 1));
    }
    let first = first_names(calls, &group_of, begun.len());
    let key = |group: &u32| {
        let (begin, depth, order) = begun[*group as usize];
        (begin, depth, order, first[*group as usize])
    };
    group_of.iter().map(key).collect()
}

/// Returns for each call the number of earlier runs of its request that had ended at its start.
fn tries(calls: &[ToolCall<'_>], places: &[CallPlace]) -> Vec<u32> {
    let mut tries = vec![0; calls.len()];
    let order = |at: usize| places[at].asked.order;
    let is_run = |at: &usize| order(*at) != NONE && calls[*at].origin == Origin::Span;
    let mut runs: Vec<usize> = (0..calls.len()).filter(is_run).collect();
    runs.sort_by_key(|at| (order(*at), calls[*at].start_ns, calls[*at].end_ns));
    for [one, next] in runs.array_windows() {
        if order(*one) == order(*next) {
            let follows = calls[*one].end_ns.wrapping_sub(1) < calls[*next].start_ns;
            tries[*next] = tries[*one] + u32::from(follows);
        }
    }
    tries
}

/// Returns for each group its rank by the span of its first call, independent of the order of
/// arrival.
fn first_names(calls: &[ToolCall<'_>], group_of: &[u32], count: usize) -> Vec<u32> {
    let mut first = vec![None; count];
    for (call, group) in calls.iter().zip(group_of) {
        let own = (call.end_ns.wrapping_sub(1), &*call.name, call.span_id);
        let place: &mut Option<_> = &mut first[*group as usize];
        *place = Some(place.map_or(own, |known: (u64, &str, _)| known.min(own)));
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|group| first[*group]);
    let mut ranks = vec![0; count];
    (0..).zip(order).for_each(|(rank, group)| ranks[group] = rank);
    ranks
}

/// Limit on walked ancestors in search of a call of the same set.
const DEPTH_MAX: usize = 64;
