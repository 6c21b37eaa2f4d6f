//! What the evaluators of expected tool calls share: finding the calls that an expected one may
//! mean, giving each call to one expected call at most, and the form of the answer.

mod assignment;

use hashbrown::{DefaultHashBuilder, HashMap};

pub(super) use assignment::{Fit, Served};

use super::arguments::ArgumentMatcher;
use super::report;
use crate::model::{Outcome, Reason, Score, ToolCall, Want};
use crate::value::{Map, Value, json, python};

/// The names and ids that the criteria mention, each with the number of its group.
#[derive(Default)]
pub(super) struct Groups {
    names: HashMap<String, usize>,
    ids: HashMap<String, usize>,
    count: usize,
}

impl Groups {
    /// The group of the calls that an expected one may mean: those with its id, where the criteria
    /// give one, else those of its name.
    pub(super) fn of_call(&mut self, name: &str, id: Option<&str>) -> usize {
        let (map, key) = match id {
            Some(id) => (&mut self.ids, id),
            None => (&mut self.names, name),
        };
        *map.entry_ref(key).or_insert_with(|| {
            self.count += 1;
            self.count - 1
        })
    }

    /// For each group the positions of its calls, in order.
    pub(super) fn sort(&self, calls: &[ToolCall<'_>]) -> Vec<Vec<u32>> {
        let mut groups = vec![Vec::new(); self.count];
        for (at, call) in (0_u32..).zip(calls) {
            let by_name = self.names.get(&*call.name);
            let by_id = call.id.as_deref().and_then(|id| self.ids.get(id));
            for group in by_name.into_iter().chain(by_id) {
                groups[*group].push(at);
            }
        }
        groups
    }
}

/// Up to this many pairs of an expected and an actual call are looked through; more are sorted into
/// groups first.
const FEW_MAX: usize = 64;

/// Serves as many of the expected calls as can be, where those that expected call `i` may mean are
/// of the group `group_of[i]`, which is what `means` tells of each; `fit` tells whether one serves.
pub(super) fn serve(
    (groups, group_of): (&Groups, &[usize]),
    calls: &[ToolCall<'_>],
    means: impl Fn(usize, &ToolCall<'_>) -> bool,
    fit: impl FnMut(usize, u32) -> Fit,
) -> Served {
    let (expected, count) = (group_of.len(), calls.len());
    if expected.saturating_mul(count) <= FEW_MAX {
        let means = &means;
        let candidates = |index| {
            let calls = (0..).zip(calls).filter(move |(_, call)| means(index, call));
            calls.map(|(at, _)| at)
        };
        return assignment::serve(expected, count, candidates, fit);
    }
    let groups = groups.sort(calls);
    let candidates = |index: usize| {
        group_of.get(index).and_then(|group| groups.get(*group)).into_iter().flatten().copied()
    };
    assignment::serve(expected, count, candidates, fit)
}

/// Up to this many pairs of an expected and an actual call, simply trying comes first.
const TRIED_MAX: usize = 4_096;

/// Serves each expected call by the next free one that `fits`, which is what most traces want;
/// `None` where that leaves one without a call, or would take long.
pub(super) fn serve_in_turn(
    expected: usize,
    calls: usize,
    mut fits: impl FnMut(usize, usize) -> bool,
) -> Option<Served> {
    let too_many = calls > u128::BITS as usize || expected.saturating_mul(calls) > TRIED_MAX;
    if expected > calls || too_many {
        return None;
    }
    let mut taken = 0_u128;
    let mut partners = Vec::new();
    let mut from = 0;
    for index in 0..expected {
        let mut free = (from..calls).chain(0..from).filter(|at| taken >> at & 1 == 0);
        let at = free.find(|at| fits(index, *at))?;
        taken |= 1 << at;
        partners.push(Some(at as u32));
        from = at + 1;
    }
    Some(Served { certain: expected, possible: expected, partners })
}

/// Whether an expected call may mean an actual one: by its id, where it has one, else by its name.
pub(super) fn means(name: &str, id: Option<&str>, call: &ToolCall<'_>) -> bool {
    match id {
        Some(id) => call.id.as_deref() == Some(id),
        None => call.name == name,
    }
}

/// Up to this many pairs of values are compared without hashes.
const HASHLESS_MAX: usize = 64;

/// Hashes of expected and actual values: equal ones have equal hashes. There are none where so few
/// pairs are compared that hashing each value would take longer.
#[derive(Default)]
pub(super) struct Hashes {
    expected: Vec<u64>,
    /// `None` where nothing is recorded.
    actual: Vec<Option<u64>>,
}

impl Hashes {
    /// Hashes each value once.
    pub(super) fn new<'v>(
        expected: impl ExactSizeIterator<Item = &'v Value<'v>>,
        actual: impl ExactSizeIterator<Item = Option<&'v Value<'v>>>,
    ) -> Self {
        if expected.len().saturating_mul(actual.len()) <= HASHLESS_MAX {
            return Self::default();
        }
        let (matcher, build) = (ArgumentMatcher::default(), DefaultHashBuilder::default());
        let hash = |value| matcher.hash(value, &build);
        let expected = expected.map(hash).collect();
        Self { expected, actual: actual.map(|value| value.map(hash)).collect() }
    }

    /// Whether the two cannot be equal.
    pub(super) fn differ(&self, expected: usize, actual: usize) -> bool {
        match (self.expected.get(expected), self.actual.get(actual)) {
            (Some(expected), Some(Some(actual))) => expected != actual,
            _ => false,
        }
    }
}

/// The value that a text is the text of: JSON, or an object or list as Python prints it.
pub(super) fn read_text<'v>(value: &'v Value<'_>) -> Option<Value<'v>> {
    let text = value.as_str()?;
    json::parse(text).ok().or_else(|| {
        let opens = text.trim_start().starts_with(['{', '[', '(']);
        if opens { python::parse_literal(text) } else { None }
    })
}

/// The score of `served` out of `expected`: all or nothing if `strict`, and 1 where nothing is
/// expected.
pub(super) fn share(served: usize, expected: usize, strict: bool) -> f64 {
    if served == expected {
        1.0
    } else if strict {
        0.0
    } else {
        served as f64 / expected as f64
    }
}

/// The score that holds whatever the unknown contents are; `None` if it depends on them.
pub(super) fn settled(served: &Served, expected: usize, strict: bool) -> Option<f64> {
    let least = share(served.certain, expected, strict);
    let most = share(served.possible, expected, strict);
    (least.total_cmp(&most)).is_eq().then_some(least)
}

/// The call to show beside each expected one: the one that serves it, else the first of its group
/// that serves none and is not shown yet.
pub(super) fn shown_calls(
    group_of: &[usize],
    groups: &[Vec<u32>],
    partners: &[Option<u32>],
) -> Vec<Option<u32>> {
    let mut shown: hashbrown::HashSet<u32> = partners.iter().flatten().copied().collect();
    let mut from = vec![0; groups.len()];
    let mut next = |group: usize| {
        let calls = groups.get(group)?;
        while let Some(call) = calls.get(from[group]) {
            from[group] += 1;
            if shown.insert(*call) {
                return Some(*call);
            }
        }
        None
    };
    partners.iter().zip(group_of).map(|(partner, group)| partner.or_else(|| next(*group))).collect()
}

/// A score with the words and details that are wanted.
pub(super) fn scored(
    value: f64,
    want: Want,
    explanation: impl FnOnce() -> String,
    details: impl FnOnce() -> Map<'static>,
) -> Outcome {
    Outcome::Scored(Score {
        value,
        explanation: if want.explanation { explanation() } else { String::new() },
        details: if want.details { Value::Map(details()) } else { Value::Null },
        label: None,
    })
}

/// No score, because contents of calls of some group on which it depends are not in the telemetry.
pub(super) fn not_recorded(
    (reason, what): (Reason, &str),
    want: Want,
    groups: &Groups,
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

/// `: a, b` for the first few of some names; empty for none.
pub(super) fn naming<'n>(names: impl Iterator<Item = &'n str>) -> String {
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

/// `1 expected call`, `3 expected calls`.
pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
