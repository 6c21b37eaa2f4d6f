//! Spans beside a call: guards, approvals, caches and evaluations name a tool and its arguments
//! under the same keys as the tool's own span. Only their names tell them apart.
//!
//! A span is a call unless its name says otherwise in words of its own (`tool.approval`), or speaks
//! of one (`memory.run`) that another span of the trace plainly is.

use super::super::merge::{equal_arguments, same_tool};
use super::super::tree::Tree;
use super::{NoCall, SpanCall};
use crate::standing::{CallStanding, calls as names_calling};
use hashbrown::{HashMap, HashSet};
use spanscore_base::model::{CallStatus, Content, WorkBudget};

/// Limit on the calls on each side searched for the one of which a span speaks.
const WINDOW: usize = 16;

/// Limit on walked ancestors.
const DEPTH_MAX: usize = 64;

/// Removes the calls that are none, given the standing of each call. A call of which others speak
/// takes the arguments that only they have, and what its end tells.
pub(super) fn settle<'a>(
    tree: &Tree<'a>,
    calls: &mut Vec<SpanCall<'a>>,
    standings: Vec<CallStanding>,
    effort: &WorkBudget,
) -> Vec<(u32, NoCall)> {
    let none = vec![None; calls.len()];
    let mut settling = Settling { tree, calls, standings, none, effort };
    // Ends come after the doubtful: the latest request of a call is no begun one.
    settling.join_doubtful();
    settling.end();
    settling.keep_named();
    settling.join_beside();
    let none = settling.none;
    let ids: Vec<_> = calls.iter().map(|call| (call.span, call.call.span_id)).collect();
    let mut gone = none.iter().map(Option::is_some);
    calls.retain(|_| !gone.next().unwrap_or_default());
    let dropped = none.into_iter().zip(&ids).filter_map(|(why, (span, _))| Some((*span, why?)));
    let reason = |whole: Option<usize>| match whole.and_then(|whole| ids.get(whole)) {
        Some((_, id)) => NoCall::PartOf(*id),
        None => NoCall::Beside,
    };
    dropped.map(|(span, why)| (span, reason(why))).collect()
}

struct Settling<'s, 'a> {
    tree: &'s Tree<'a>,
    calls: &'s mut [SpanCall<'a>],
    standings: Vec<CallStanding>,
    /// For those that are no call, the one that they are part of, if any.
    none: Vec<Option<Option<usize>>>,
    effort: &'s WorkBudget,
}

impl Settling<'_, '_> {
    fn of(&self, standing: CallStanding) -> Vec<usize> {
        let is_left = |at: &usize| self.standings[*at] == standing && self.none[*at].is_none();
        (0..self.calls.len()).filter(is_left).collect()
    }

    /// Joins the doubtful to the calls that they speak of; without one, they are calls.
    fn join_doubtful(&mut self) {
        let wholes = self.of(CallStanding::Call);
        for at in self.of(CallStanding::Doubtful) {
            match self.spoken_of(&wholes, at) {
                Some(whole) => self.join(at, whole, true),
                None => self.standings[at] = CallStanding::Call,
            }
        }
    }

    /// Joins those beside a call to it. Of two with other arguments one is of another call, perhaps
    /// of a denied one: the call takes nothing of them.
    fn join_beside(&mut self) {
        let wholes = self.of(CallStanding::Call);
        let speakers = self.of(CallStanding::Beside);
        let found: Vec<_> = speakers.iter().map(|at| (*at, self.spoken_of(&wholes, *at))).collect();
        let mut first: HashMap<usize, usize> = HashMap::new();
        let mut mixed = HashSet::new();
        for (at, whole) in found.iter().filter_map(|(at, whole)| Some((*at, (*whole)?))) {
            let first = first.entry(whole).or_insert(at);
            if !self.calls[*first].call.arguments.is_recorded() {
                *first = at;
            } else if !equal_arguments(&self.calls[*first], &self.calls[at]) {
                mixed.insert(whole);
            }
        }
        for (at, whole) in found {
            match whole {
                Some(whole) => self.join(at, whole, !mixed.contains(&whole)),
                None => self.none[at] = Some(None),
            }
        }
    }

    /// Gives ends to the calls that they end. An end without one is a call, which has ended.
    fn end(&mut self) {
        let mut open: Vec<usize> = Vec::new();
        let mut mixed = HashSet::new();
        for at in 0..self.calls.len() {
            match self.standings[at] {
                CallStanding::Call if self.none[at].is_none() => open.push(at),
                CallStanding::End => {
                    let near = &open[open.len().saturating_sub(WINDOW)..];
                    let begun: Vec<_> =
                        near.iter().copied().filter(|it| self.may_end(*it, at)).collect();
                    let Some(whole) = self.nearest(&begun, at) else {
                        self.standings[at] = CallStanding::Call;
                        continue;
                    };
                    if !self.is_sure(whole, &begun) {
                        mixed.extend(begun);
                    }
                    open.retain(|it| *it != whole);
                    self.part(at, whole, !mixed.contains(&whole));
                }
                _ => {}
            }
        }
    }

    /// Makes calls of those whose id only nameless spans share: their tool is named nowhere else.
    fn keep_named(&mut self) {
        for at in self.named_alone() {
            forget_end(&mut self.calls[at]);
            self.standings[at] = CallStanding::Call;
        }
    }

    fn named_alone(&self) -> Vec<usize> {
        let wholes = self.of(CallStanding::Call);
        let ids_of = |nameless: bool| {
            let calls = wholes.iter().map(|at| &self.calls[*at]);
            let calls = calls.filter(move |call| call.is_nameless() == nameless);
            calls.filter_map(|call| call.call.id.as_deref()).collect::<HashSet<_>>()
        };
        let nameless = ids_of(true);
        let mut named = ids_of(false);
        let mut alone = self.of(CallStanding::Beside);
        alone.retain(|at| {
            let id = self.calls[*at].call.id.as_deref();
            id.is_some_and(|id| nameless.contains(id) && named.insert(id))
        });
        alone
    }

    fn part(&mut self, at: usize, whole: usize, fills: bool) {
        self.none[at] = Some(Some(whole));
        if fills && let Ok([whole, part]) = self.calls.get_disjoint_mut([whole, at]) {
            whole.fill_from(part);
        }
    }

    /// Makes a span part of the call of which it speaks. Its result is not the call's, unless it is
    /// around the call and its name says that it calls.
    fn join(&mut self, at: usize, whole: usize, fills: bool) {
        let [speaker, call] = [&self.calls[at], &self.calls[whole]];
        let name = self.tree.get(speaker.span).map(|span| span.facts.span_name());
        let is_around = is_within(self.tree, call, speaker) && name.is_some_and(names_calling);
        if !is_around || call.call.result.is_recorded() {
            forget_end(&mut self.calls[at]);
        }
        self.part(at, whole, fills);
    }

    /// Returns true if a call may be that of an end.
    fn may_end(&self, begun: usize, at: usize) -> bool {
        let [call, end] = [&self.calls[begun], &self.calls[at]];
        let is_it = match (&call.call.id, &end.call.id) {
            (Some(one), Some(other)) => one == other,
            _ => {
                !call.call.result.is_recorded() && parent(self.tree, call) == parent(self.tree, end)
            }
        };
        is_it && same_tool(call, end) && equal_arguments(call, end)
    }

    /// Returns the begun call that ends nearest to an end; of several the latest.
    fn nearest(&self, begun: &[usize], at: usize) -> Option<usize> {
        let start = self.calls[at].call.start_ns;
        let distance = |it: &usize| self.calls[*it].call.end_ns.abs_diff(start);
        begun.iter().copied().rev().min_by_key(distance)
    }

    /// Returns true if of the begun calls only this one can be meant, by its duration, or if it
    /// makes no difference.
    fn is_sure(&self, whole: usize, begun: &[usize]) -> bool {
        let call = &self.calls[whole];
        call.call.end_ns > call.call.start_ns
            || begun.iter().all(|it| equal_arguments(&self.calls[*it], call))
    }

    /// Returns the call of which a span speaks: of its id, or near it with the same tool and
    /// arguments; the next one rather than an earlier one, since most guards come first.
    fn spoken_of(&self, wholes: &[usize], at: usize) -> Option<usize> {
        let speaker = &self.calls[at];
        let is_it = |other: &&usize| {
            let call = &self.calls[**other];
            let is_same = || match (&call.call.id, &speaker.call.id) {
                (Some(one), Some(other)) => one == other,
                _ => is_near(self.tree, call, speaker) && equal_arguments(call, speaker),
            };
            self.effort.spend(1) && same_tool(call, speaker) && is_same()
        };
        let (before, next) = wholes.split_at(wholes.partition_point(|whole| *whole < at));
        let before = before.iter().rev().take(WINDOW);
        next.iter().take(WINDOW).find(is_it).or_else(|| before.clone().find(is_it)).copied()
    }
}

/// Removes the result and failure of who speaks of a call: a guard's are no tool's.
fn forget_end(call: &mut SpanCall<'_>) {
    call.call.result = Content::NotRecorded;
    call.call.status = CallStatus::Unknown;
}

fn parent(tree: &Tree<'_>, call: &SpanCall<'_>) -> Option<u32> {
    tree.get(call.span).map(|span| span.parent)
}

/// Returns true if the spans of two calls are siblings, or one is within the other.
fn is_near(tree: &Tree<'_>, one: &SpanCall<'_>, other: &SpanCall<'_>) -> bool {
    parent(tree, one) == parent(tree, other)
        || is_within(tree, one, other)
        || is_within(tree, other, one)
}

/// Returns true if a call's span is within another's.
fn is_within(tree: &Tree<'_>, inner: &SpanCall<'_>, outer: &SpanCall<'_>) -> bool {
    let above = |at: &u32| tree.get(*at).map(|span| span.parent);
    let mut spans = std::iter::successors(above(&inner.span), above).take(DEPTH_MAX);
    spans.any(|span| span == outer.span)
}
