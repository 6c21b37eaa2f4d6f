//! Numbers of calls, so that each comparison is one of integers.

use std::hash::BuildHasher;

use hashbrown::hash_table::{Entry, HashTable};

use super::{CallMatcher, ExpectedCall, arguments_of};
use spanscore_base::model::ToolCall;
use spanscore_base::tally::common;
use spanscore_base::value::Value;

/// Assigns equal numbers to equal calls by names and arguments, each hashed once; requires
/// symmetric matching.
pub fn number<'c>(
    matcher: &CallMatcher,
    calls: impl Iterator<Item = (&'c str, &'c Value<'c>)>,
) -> Vec<u32> {
    let build = hashbrown::DefaultHashBuilder::default();
    let mut table: HashTable<(u64, &str, &Value<'_>, u32)> = HashTable::new();
    let number = |(name, arguments): (&'c str, &'c Value<'c>)| {
        let matcher = matcher.of(name);
        let hash = build.hash_one(name) ^ matcher.hash(arguments, &build).rotate_left(17);
        let next = u32::try_from(table.len()).unwrap_or(u32::MAX);
        let same = |(_, other, values, _): &(u64, &str, &Value<'_>, u32)| {
            *other == name && matcher.matches(values, arguments)
        };
        match table.entry(hash, same, |(hash, ..)| *hash) {
            Entry::Occupied(place) => place.get().3,
            Entry::Vacant(place) => {
                place.insert((hash, name, arguments, next));
                next
            }
        }
    };
    calls.map(number).collect()
}

/// Numbers of the expected and actual calls, equal for equal calls or for equal names.
pub(super) struct CallNumbers {
    pub(super) expected: Vec<u32>,
    pub(super) actual: Vec<u32>,
}

impl CallNumbers {
    /// Numbers by names and arguments; requires symmetric matching.
    pub(super) fn of_calls(
        matcher: &CallMatcher,
        expected: &[ExpectedCall],
        actual: &[&ToolCall<'_>],
    ) -> Self {
        let wanted = expected.iter().map(|call| (&*call.name, &call.arguments));
        let made = actual.iter().map(|call| (&*call.name, arguments_of(call)));
        Self::split(number(matcher, wanted.chain(made)), expected.len())
    }

    /// Numbers by names.
    pub(super) fn of_names(expected: &[ExpectedCall], actual: &[&ToolCall<'_>]) -> Self {
        let mut known: hashbrown::HashMap<&str, u32> = hashbrown::HashMap::new();
        let wanted = expected.iter().map(|call| &*call.name);
        let names = wanted.chain(actual.iter().map(|call| &*call.name));
        let number = |name| {
            let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
            *known.entry(name).or_insert(next)
        };
        Self::split(names.map(number).collect(), expected.len())
    }

    fn split(mut numbers: Vec<u32>, expected: usize) -> Self {
        let actual = numbers.split_off(expected);
        Self { expected: numbers, actual }
    }

    #[inline]
    pub(super) fn are_same(&self, expected: usize, actual: usize) -> bool {
        self.expected[expected] == self.actual[actual]
    }

    /// Returns how many of `these` are among the `others`.
    pub(super) fn members(these: &[u32], others: &[u32]) -> usize {
        let others: hashbrown::HashSet<u32> = others.iter().copied().collect();
        these.iter().filter(|number| others.contains(*number)).count()
    }

    /// Returns the size of the multiset intersection.
    pub(super) fn shared(&self) -> usize {
        common(&self.expected, &self.actual)
    }
}
