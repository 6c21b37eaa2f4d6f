//! Pairing of expected and actual calls: candidates by name or id, the assignment of each call to
//! at most one expected call, and the outcome.

mod fast_path;
pub(crate) mod heaviest;
mod matching;

use hashbrown::DefaultHashBuilder;

pub(crate) use matching::{Fit, MatchingTooLarge, QUESTIONS_MAX, Served, pairs};

use super::arguments::ArgumentMatcher;
use super::names::NameMap;
use super::report;
use fast_path::FastPath;
use spanscore_base::model::{Outcome, Reason, ToolCall, Want};
use spanscore_base::value::{Value, json, python};

/// Names and ids in the criteria, with the number of their group.
#[derive(Default)]
pub(crate) struct CriteriaGroups {
    names: NameMap<usize>,
    ids: NameMap<usize>,
    count: usize,
    /// Group of each expected call.
    group_of: Vec<usize>,
}

impl CriteriaGroups {
    /// Adds an expected call. Its candidates are the calls with its id, if the criteria give one,
    /// else those with its name.
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

    /// Calls `visit` for each call in a group, in order, with that group.
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

    /// Returns the positions of each group's calls, in order.
    fn sort(&self, calls: &[ToolCall<'_>]) -> Vec<Vec<u32>> {
        let mut sorted = vec![Vec::new(); self.count];
        self.walk(calls, |at, group| sorted[group].push(at));
        sorted
    }

    /// Returns the call to show for each expected one: its assigned one, else the first unassigned
    /// call of its group that is not shown yet.
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

/// Satisfies as many of the expected calls as possible.
///
/// `fits` checks a pair cheaply, and is used for few pairs only. If that leaves expected calls
/// without a match, `prepare` builds a check for many pairs.
#[inline]
pub(crate) fn serve<F: FnMut(usize, u32) -> Fit>(
    groups: &CriteriaGroups,
    calls: &[ToolCall<'_>],
    fits: impl FnMut(usize, u32) -> bool,
    prepare: impl FnOnce() -> F,
) -> Served {
    let fast_path = FastPath::sort(groups, calls);
    if let Some(served) = fast_path.as_ref().and_then(|fast_path| fast_path.next_unused(fits)) {
        return served;
    }
    let mut fit = prepare();
    if let Some(served) = fast_path.and_then(|fast_path| fast_path.first_unused(&mut fit)) {
        return served;
    }
    let sorted = groups.sort(calls);
    let candidates = |index: usize| sorted[groups.group_of[index]].iter().copied();
    matching::serve(groups.group_of.len(), calls.len(), candidates, fit)
}

/// Number of pairs up to which values are compared without hashes.
const HASHLESS_MAX: usize = 64;

/// Hashes of expected and actual values, equal for equal values. They are absent for so few pairs
/// that hashing each value would take longer.
#[derive(Default)]
pub(crate) struct Hashes {
    expected: Vec<u64>,
    /// `None` if unrecorded.
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

    /// Returns true if the two are certainly different.
    pub(crate) fn differ(&self, expected: usize, actual: usize) -> bool {
        match (self.expected.get(expected), self.actual.get(actual)) {
            (Some(expected), Some(Some(actual))) => expected != actual,
            _ => false,
        }
    }
}

/// Returns true if a text starts like one that [`read_text`] parses.
pub(crate) fn may_be_read(text: &str) -> bool {
    let text = text.trim_start();
    match text.as_bytes().first() {
        Some(b'"' | b'{' | b'[' | b'(' | b'-' | b'0'..=b'9') => true,
        Some(b't' | b'f' | b'n') => ["true", "false", "null"].iter().any(|w| text.starts_with(w)),
        _ => false,
    }
}

/// Parses the text of a value: JSON, or an object or list printed by Python.
pub(crate) fn read_text<'v>(value: &'v Value<'_>) -> Option<Value<'v>> {
    let text = value.as_str().filter(|text| may_be_read(text))?;
    json::parse(text).ok().or_else(|| {
        let opens = text.trim_start().starts_with(['{', '[', '(']);
        if opens { python::parse_literal(text) } else { None }
    })
}

/// Returns the score of `served` out of `expected`: 0 or 1 if `strict`, and 1 without expected
/// calls.
pub(crate) fn share(served: usize, expected: usize, strict: bool) -> f64 {
    if served == expected {
        1.0
    } else if strict {
        0.0
    } else {
        served as f64 / expected as f64
    }
}

/// Returns the score if the unknown contents cannot change it.
pub(crate) fn settled(served: &Served, expected: usize, strict: bool) -> Option<f64> {
    let least = share(served.certain, expected, strict);
    let most = share(served.possible, expected, strict);
    (least.total_cmp(&most)).is_eq().then_some(least)
}

/// Returns the outcome for unrecorded contents of calls that decide the score.
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

/// Limit on the names in a sentence.
const NAMES_MAX: usize = 3;

/// Returns `: a, b` with the first few names; empty without names.
pub(crate) fn naming<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return String::new();
    }
    let (first, others) = report::first_names(names, NAMES_MAX);
    format!(": {first}{}", if others > 0 { " and others" } else { "" })
}

/// Returns `1 expected call` or `3 expected calls`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

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
