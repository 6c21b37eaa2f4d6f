//! Alignment of the calls of two runs: the largest set of pairs that keeps the order of both;
//! parallel calls are unordered.
//!
//! Dynamic programming over groups of parallel calls. A path goes forward through both runs; where
//! two groups meet, calls of the same name are paired. With one call per group, the result is a
//! longest common subsequence.

use std::ops::Range;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::golden::GoldenCall;
use spanscore_base::value::Value;

/// Largest group, in calls, for pairing by similar arguments; in larger ones the first of a name is
/// taken.
const COMPARED_MAX: usize = 64;

/// Last step of the path to a cell.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum MeetingStep {
    /// Next group of both runs.
    #[default]
    Both,
    /// Next group of the first run, same group of the second.
    First,
    /// Next group of the second run, same group of the first.
    Second,
}

/// Names of unpaired calls in a group.
type Left = SmallVec<[u32; 4]>;

/// Cell of the dynamic programme: pairs on the best path to it, and unpaired calls of its two
/// groups.
#[derive(Clone, Default)]
struct MeetingGroups {
    pairs: u32,
    left: [Left; 2],
}

/// Run as groups of numbered names.
struct GroupedRun {
    groups: Vec<Range<usize>>,
    names: Vec<u32>,
}

/// Aligns two runs; returns pairs of indexes, sorted by the groups of both.
pub(super) fn align(a: &[GoldenCall], b: &[GoldenCall]) -> Vec<(usize, usize)> {
    let mut known = HashMap::new();
    let first = GroupedRun::new(a, &mut known);
    let second = GroupedRun::new(b, &mut known);
    let mut left = [vec![true; a.len()], vec![true; b.len()]];
    let mut pairs = Vec::new();
    for (i, j) in path(&first, &second) {
        let of = |groups: &[Range<usize>], at: usize, left: &[bool]| -> Vec<usize> {
            groups[at].clone().filter(|call| left[*call]).collect()
        };
        let ours = of(&first.groups, i, &left[0]);
        let mut theirs = of(&second.groups, j, &left[1]);
        let is_small = ours.len().max(theirs.len()) <= COMPARED_MAX;
        for call in ours {
            let same = (0..theirs.len()).filter(|at| b[theirs[*at]].name == a[call].name);
            // Reversed, since `max_by_key` returns the last of equals: the first call wins.
            let alike = |at: &usize| {
                let arguments = (&a[call].arguments, &b[theirs[*at]].arguments);
                if is_small { likeness(arguments.0.as_ref(), arguments.1.as_ref()) } else { 0 }
            };
            let Some(at) = same.rev().max_by_key(alike) else { continue };
            let partner = theirs.remove(at);
            (left[0][call], left[1][partner]) = (false, false);
            pairs.push((call, partner));
        }
    }
    pairs.sort_by_key(|(one, other)| (a[*one].group, b[*other].group));
    pairs
}

impl GroupedRun {
    fn new<'c>(calls: &'c [GoldenCall], known: &mut HashMap<&'c str, u32>) -> Self {
        let mut groups: Vec<Range<usize>> = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            match groups.last_mut() {
                Some(last) if calls[last.start].group == call.group => last.end = at + 1,
                _ => groups.push(at..at + 1),
            }
        }
        let number = |call: &'c GoldenCall| {
            let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
            *known.entry(&call.name).or_insert(next)
        };
        Self { groups, names: calls.iter().map(number).collect() }
    }

    fn group(&self, at: usize) -> Left {
        Left::from_slice(&self.names[self.groups[at].clone()])
    }
}

/// Returns the meeting groups on the path with the most pairs, in order.
fn path(a: &GroupedRun, b: &GroupedRun) -> Vec<(usize, usize)> {
    let width = b.groups.len();
    let mut steps = vec![MeetingStep::Both; a.groups.len() * width];
    let mut above: Vec<MeetingGroups> = Vec::new();
    for i in 0..a.groups.len() {
        let mut row: Vec<MeetingGroups> = Vec::with_capacity(width);
        for j in 0..width {
            let corner = j.checked_sub(1).and_then(|before| above.get(before));
            let paired = corner.map_or(0, |place| place.pairs);
            let mut best = MeetingGroups { pairs: paired, left: [a.group(i), b.group(j)] }.met();
            let mut step = MeetingStep::Both;
            if let Some(place) = above.get(j).filter(|it| it.can_beat(&best, a.groups[i].len(), 1))
            {
                let met =
                    MeetingGroups { left: [a.group(i), place.left[1].clone()], ..*place }.met();
                if met.pairs > best.pairs {
                    (best, step) = (met, MeetingStep::First);
                }
            }
            if let Some(place) = row.last().filter(|it| it.can_beat(&best, b.groups[j].len(), 0)) {
                let met =
                    MeetingGroups { left: [place.left[0].clone(), b.group(j)], ..*place }.met();
                if met.pairs > best.pairs {
                    (best, step) = (met, MeetingStep::Second);
                }
            }
            steps[i * width + j] = step;
            row.push(best);
        }
        above = row;
    }
    walk_back(&steps, a.groups.len(), width)
}

fn walk_back(steps: &[MeetingStep], height: usize, width: usize) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    let mut at = height.checked_sub(1).zip(width.checked_sub(1));
    while let Some((i, j)) = at {
        places.push((i, j));
        at = match steps[i * width + j] {
            MeetingStep::Both => i.checked_sub(1).zip(j.checked_sub(1)),
            MeetingStep::First => i.checked_sub(1).map(|i| (i, j)),
            MeetingStep::Second => j.checked_sub(1).map(|j| (i, j)),
        };
    }
    places.reverse();
    places
}

impl MeetingGroups {
    /// Returns true if a step from here with `fresh` calls may beat the best so far.
    fn can_beat(&self, best: &Self, fresh: usize, side: usize) -> bool {
        self.pairs as usize + self.left[side].len().min(fresh) > best.pairs as usize
    }

    /// Pairs unpaired calls of the same name in both groups.
    fn met(mut self) -> Self {
        let [ours, theirs] = &mut self.left;
        let mut pairs = 0;
        ours.retain(|name| match theirs.iter().position(|other| other == name) {
            Some(at) => {
                theirs.swap_remove(at);
                pairs += 1;
                false
            }
            None => true,
        });
        self.pairs += pairs;
        self
    }
}

/// Counts the equal values of two arguments, at any depth.
fn likeness(a: Option<&Value<'_>>, b: Option<&Value<'_>>) -> usize {
    match (a, b) {
        (Some(Value::Map(a)), Some(Value::Map(b))) => {
            a.iter().map(|(key, value)| likeness(Some(value), b.get(key))).sum()
        }
        (Some(Value::List(a)), Some(Value::List(b))) if a.len() == b.len() => {
            a.iter().zip(b).map(|(a, b)| likeness(Some(a), Some(b))).sum()
        }
        (a, b) => usize::from(a.is_some() && a == b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Aligns runs given as words, one word for each group; compares the names of the pairs.
    fn check(a: &str, b: &str, expected: &str) {
        let run = |text: &str| -> Vec<GoldenCall> {
            let groups = text.split(' ').filter(|it| !it.is_empty()).enumerate();
            let calls = groups.flat_map(|(group, names)| {
                names.chars().map(move |name| GoldenCall {
                    name: name.to_string(),
                    arguments: None,
                    group,
                })
            });
            calls.collect()
        };
        let a = run(a);
        let b = run(b);
        let pairs = align(&a, &b);
        assert!(pairs.iter().all(|(one, other)| a[*one].name == b[*other].name));
        let names: String = pairs.iter().map(|(one, _)| a[*one].name.as_str()).collect();
        assert_eq!(names, expected);
        let keep_order = pairs.iter().flat_map(|x| pairs.iter().map(move |y| (x, y)));
        for ((i, j), (k, l)) in keep_order {
            assert!(a[*i].group >= a[*k].group || b[*j].group <= b[*l].group);
        }
    }

    #[test]
    fn calls_made_together_are_the_same_in_any_order() {
        check("wh b", "hw b", "whb");
        check("whx b", "xwh b", "whxb");
        check("wh b", "w h b", "whb");
        check("h w b", "wh b", "hwb");
        check("wh x", "w hx", "whx");
        check("w h b", "h w b", "wb");
        check("aab", "baa", "aab");
        check("aab", "ba", "ab");
    }

    #[test]
    fn calls_by_themselves_keep_the_longest_common_order() {
        check("a b c", "a c b b", "ab");
        check("a b", "a a a b", "ab");
        check("a b c d", "b x c a d", "bcd");
        check("", "a", "");
        check("a", "b", "");
        let long = "a b c d e f ".repeat(100);
        check(&long, &long, &long.replace(' ', ""));
    }
}
