//! Pairing of expected tool calls with actual ones: candidates by name or id, a matching that gives
//! each call to one expected call at most, and the form of the answer.

pub(crate) mod heaviest;
mod matching;

use hashbrown::DefaultHashBuilder;
use smallvec::{SmallVec, smallvec};

pub(crate) use matching::{Fit, MatchingTooLarge, QUESTIONS_MAX, Served, pairs};

use super::arguments::ArgumentMatcher;
use super::names::NameMap;
use super::report;
use spanscore_base::model::{Outcome, Reason, ToolCall, Want};
use spanscore_base::value::{Value, json, python};

/// Positions of the calls of each group, in order.
type SortedCalls = SmallVec<[SmallVec<[u32; 8]>; 8]>;

/// Names and ids that the criteria mention, each with the number of its group.
#[derive(Default)]
pub(crate) struct CriteriaGroups {
    names: NameMap<usize>,
    ids: NameMap<usize>,
    count: usize,
    /// Group of each expected call.
    group_of: Vec<usize>,
}

impl CriteriaGroups {
    /// Adds an expected call. It may mean the calls with its id, where the criteria give one, else
    /// those of its name.
    pub(crate) fn add(&mut self, name: &str, id: Option<&str>) {
        let (names, key) = match id {
            Some(id) => (&mut self.ids, id),
            None => (&mut self.names, name),
        };
        let group = names.get_or_insert_with(key, || {
            self.count += 1;
            self.count - 1
        });
        self.group_of.push(*group);
    }

    /// Calls `visit` with each call that is of a group, in order, and with that group.
    #[inline]
    fn walk(&self, calls: &[ToolCall<'_>], mut visit: impl FnMut(u32, usize)) {
        for (at, call) in (0..).zip(calls) {
            if let Some(group) = self.names.get(&call.name) {
                visit(at, *group);
            }
            if let Some(group) = call.id.as_deref().and_then(|id| self.ids.get(id)) {
                visit(at, *group);
            }
        }
    }

    /// Returns the positions of the calls of each group, in order.
    fn sort(&self, calls: &[ToolCall<'_>]) -> SortedCalls {
        let mut sorted: SortedCalls = smallvec![SmallVec::new(); self.count];
        self.walk(calls, |at, group| sorted[group].push(at));
        sorted
    }

    /// Returns the call to show beside each expected one: the one that serves it, else the first of
    /// its group that serves none and is not shown yet.
    pub(crate) fn shown(
        &self,
        calls: &[ToolCall<'_>],
        partners: &[Option<u32>],
    ) -> Vec<Option<u32>> {
        let sorted = self.sort(calls);
        let mut shown: hashbrown::HashSet<u32> = partners.iter().flatten().copied().collect();
        let mut from = vec![0; sorted.len()];
        let mut next = |group: usize| {
            while let Some(call) = sorted[group].get(from[group]) {
                from[group] += 1;
                if shown.insert(*call) {
                    return Some(*call);
                }
            }
            None
        };
        let each = partners.iter().zip(&self.group_of);
        each.map(|(partner, group)| partner.or_else(|| next(*group))).collect()
    }
}

/// Serves as many of the expected calls as can be.
///
/// `fits` tells at once if an actual call serves an expected one, and is asked about few pairs
/// only. Where that does not serve them all, `prepare` returns what tells it about many.
#[inline]
pub(crate) fn serve<F: FnMut(usize, u32) -> Fit>(
    groups: &CriteriaGroups,
    calls: &[ToolCall<'_>],
    fits: impl FnMut(usize, u32) -> bool,
    prepare: impl FnOnce() -> F,
) -> Served {
    let sorted = groups.sort(calls);
    let candidates = |index: usize| &*sorted[groups.group_of[index]];
    let expected = groups.group_of.len();
    if let Some(served) = in_turn(expected, calls.len(), candidates, fits) {
        return served;
    }
    let candidates = |index: usize| candidates(index).iter().copied();
    matching::serve(expected, calls.len(), candidates, prepare())
}

/// Up to this many pairs of an expected and an actual call, simply trying comes first.
const TRIED_MAX: usize = 4_096;

/// Serves each expected call by the next free one that `fits`, which is what most traces want;
/// `None` where that leaves one without a call, or would take long.
fn in_turn<'s>(
    expected: usize,
    call_count: usize,
    candidates: impl Fn(usize) -> &'s [u32],
    mut fits: impl FnMut(usize, u32) -> bool,
) -> Option<Served> {
    let is_small = call_count <= matching::FEW_CALLS && expected * call_count <= TRIED_MAX;
    if expected > call_count || !is_small {
        return None;
    }
    let mut partners = SmallVec::new();
    let mut is_free = [true; matching::FEW_CALLS];
    let mut from = 0;
    for index in 0..expected {
        // Calls behind the last one taken come first: a run that did what was expected did it in
        // order, so the first try nearly always fits.
        let calls = candidates(index);
        let (before, later) = calls.split_at(calls.partition_point(|at| *at < from));
        let takes = |at: &&u32| is_free[**at as usize] && fits(index, **at);
        let at = *later.iter().chain(before).find(takes)?;
        is_free[at as usize] = false;
        partners.push(Some(at));
        from = at + 1;
    }
    Some(Served { certain: expected, possible: expected, partners })
}

/// Up to this many pairs of values are compared without hashes.
const HASHLESS_MAX: usize = 64;

/// Hashes of expected and actual values: equal ones have equal hashes. There are none where so few
/// pairs are compared that hashing each value would take longer.
#[derive(Default)]
pub(crate) struct Hashes {
    expected: Vec<u64>,
    /// `None` where nothing is recorded.
    actual: Vec<Option<u64>>,
}

impl Hashes {
    /// Hashes each value once.
    pub(crate) fn new<'v>(
        expected: impl ExactSizeIterator<Item = &'v Value<'v>>,
        actual: impl ExactSizeIterator<Item = Option<&'v Value<'v>>>,
    ) -> Self {
        if expected.len().saturating_mul(actual.len()) <= HASHLESS_MAX {
            return Self::default();
        }
        let matcher = ArgumentMatcher::default();
        let build = DefaultHashBuilder::default();
        let hash = |value| matcher.hash(value, &build);
        let expected = expected.map(hash).collect();
        Self { expected, actual: actual.map(|value| value.map(hash)).collect() }
    }

    /// Returns true if the two cannot be equal.
    pub(crate) fn differ(&self, expected: usize, actual: usize) -> bool {
        match (self.expected.get(expected), self.actual.get(actual)) {
            (Some(expected), Some(Some(actual))) => expected != actual,
            _ => false,
        }
    }
}

/// Returns true if a text begins like one that [`read_text`] reads.
pub(crate) fn may_be_read(text: &str) -> bool {
    let text = text.trim_start();
    match text.as_bytes().first() {
        Some(b'"' | b'{' | b'[' | b'(' | b'-' | b'0'..=b'9') => true,
        Some(b't' | b'f' | b'n') => ["true", "false", "null"].iter().any(|w| text.starts_with(w)),
        _ => false,
    }
}

/// Parses a text as a value: JSON, or an object or list as Python prints it.
pub(crate) fn read_text<'v>(value: &'v Value<'_>) -> Option<Value<'v>> {
    let text = value.as_str().filter(|text| may_be_read(text))?;
    json::parse(text).ok().or_else(|| {
        let opens = text.trim_start().starts_with(['{', '[', '(']);
        if opens { python::parse_literal(text) } else { None }
    })
}

/// Returns the score of `served` out of `expected`: all or nothing if `strict`, and 1 where nothing
/// is expected.
pub(crate) fn share(served: usize, expected: usize, strict: bool) -> f64 {
    if served == expected {
        1.0
    } else if strict {
        0.0
    } else {
        served as f64 / expected as f64
    }
}

/// Returns the score that holds whatever the unknown contents are; `None` if it depends on them.
pub(crate) fn settled(served: &Served, expected: usize, strict: bool) -> Option<f64> {
    let least = share(served.certain, expected, strict);
    let most = share(served.possible, expected, strict);
    (least.total_cmp(&most)).is_eq().then_some(least)
}

/// Returns no score, because contents on which it depends are not in the telemetry.
pub(crate) fn not_recorded(
    (reason, what): (Reason, &str),
    want: Want,
    groups: &CriteriaGroups,
    calls: &[ToolCall<'_>],
    is_unknown: impl Fn(&ToolCall<'_>) -> bool,
) -> Outcome {
    report::not_evaluable(reason, want, || {
        let groups = groups.sort(calls);
        let candidates = groups.iter().flatten().map(|at| &calls[*at as usize]);
        let mut names: Vec<&str> = Vec::new();
        for call in candidates.filter(|call| is_unknown(call)) {
            if names.len() <= NAMES_MAX && !names.contains(&&*call.name) {
                names.push(&call.name);
            }
        }
        let names = naming(names.into_iter());
        format!("the score depends on {what} that are not recorded{names}")
    })
}

/// Names that a sentence spells out.
const NAMES_MAX: usize = 3;

/// Returns `: a, b` for the first few of some names; empty for none.
pub(crate) fn naming<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return String::new();
    }
    let mut out = String::from(": ");
    for (index, name) in names.by_ref().take(NAMES_MAX).enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(name);
    }
    if names.next().is_some() {
        out.push_str(" and others");
    }
    out
}

/// Returns `1 expected call`, `3 expected calls`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn calls_taken_in_turn_are_as_many_as_a_matching_finds(
            fits in (0_usize..6).prop_flat_map(|calls| {
                prop::collection::vec(prop::collection::vec(any::<bool>(), calls), 0..6)
            }),
        ) {
            let calls: Vec<u32> = (0..fits.first().map_or(0, Vec::len) as u32).collect();
            let fits = |index: usize, call: u32| {
                fits.get(index).is_some_and(|row| row[call as usize])
            };
            let expected = calls.len();
            let fit = |index, call| if fits(index, call) { Fit::Yes } else { Fit::No };
            let matched = matching::serve(expected, expected, |_| calls.iter().copied(), fit);
            if let Some(served) = in_turn(expected, expected, |_| &calls, fits) {
                prop_assert_eq!((served.certain, matched.certain), (expected, expected));
                let taken: Vec<u32> = served.partners.iter().copied().flatten().collect();
                prop_assert!((0..).zip(&taken).all(|(index, call)| fits(index, *call)));
                let taken: hashbrown::HashSet<u32> = taken.into_iter().collect();
                prop_assert_eq!(taken.len(), expected);
            }
        }
    }

    #[test]
    fn the_last_of_128_calls_is_found() {
        let calls: Vec<u32> = (0..128).collect();
        let served = in_turn(2, 128, |_| &calls, |index, call| call == [127, 3][index]);
        assert_eq!(served.map(|served| served.partners.to_vec()), Some(vec![Some(127), Some(3)]));
        assert_eq!(in_turn(2, 128, |_| &calls, |_, call| call == 127), None);
    }

    #[test]
    fn texts_of_values_are_read_and_prose_is_not() {
        for text in
            [" {\"a\": 1}", "[1]", "\"a\"", " true ", "null", "-1", "0.5", "{'a': None}", "(1, 2)"]
        {
            assert!(read_text(&Value::from(text)).is_some(), "{text}");
        }
        for text in ["", " ", "the parcel", "order", "nothing", "Infinity", "{a", "1 2"] {
            assert!(read_text(&Value::from(text)).is_none(), "{text}");
        }
    }
}
