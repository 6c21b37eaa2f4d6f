//! Character classes of JavaScript patterns as ranges of code units.
//!
//! In: ranges. Out: complements, case variants and the syntax of the `regex` crate. A surrogate is
//! written as its plane-15 substitute.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Ranges of code units or code points, both ends included, in any order.
pub(crate) type Ranges = Vec<(u32, u32)>;
/// `\d`.
pub(crate) const DIGITS: &[(u32, u32)] = &[(0x30, 0x39)];
/// `\w`.
pub(crate) const WORD: &[(u32, u32)] = &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)];
/// `\s`: white space and line terminators of ECMAScript.
pub(crate) const SPACE: &[(u32, u32)] = &[
    (0x9, 0xd),
    (0x20, 0x20),
    (0xa0, 0xa0),
    (0x1680, 0x1680),
    (0x2000, 0x200a),
    (0x2028, 0x2029),
    (0x202f, 0x202f),
    (0x205f, 0x205f),
    (0x3000, 0x3000),
    (0xfeff, 0xfeff),
];
/// Line terminators, which `.` leaves out.
pub(crate) const LINE_ENDS: &[(u32, u32)] = &[(0xa, 0xa), (0xd, 0xd), (0x2028, 0x2029)];

/// Value of an escape or a class item.
pub(crate) enum Item {
    /// One character.
    Unit(u32),
    /// A class.
    Set(Ranges),
}

/// Returns the substitute character of a code unit or code point: of plane 15 for a surrogate,
/// which Rust strings cannot hold.
pub(crate) fn stand_in(unit: u32) -> Option<char> {
    match unit {
        0xd800..=0xdfff => char::from_u32(unit - 0xd800 + 0xf_0000),
        _ => char::from_u32(unit),
    }
}

/// Adds an item to a class.
pub(crate) fn push(ranges: &mut Ranges, item: Item) {
    match item {
        Item::Unit(unit) => ranges.push((unit, unit)),
        Item::Set(mut more) => ranges.append(&mut more),
    }
}

/// Returns everything up to `top` that is not in the ranges.
pub(crate) fn complement(ranges: &[(u32, u32)], top: u32) -> Ranges {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut out = Ranges::new();
    let mut next = 0;
    for (low, high) in sorted {
        if low > next {
            out.push((next, low - 1));
        }
        next = next.max(high.saturating_add(1));
    }
    if next <= top {
        out.push((next, top));
    }
    out
}

/// Returns the intersection of two classes.
pub(crate) fn meet(some: &[(u32, u32)], others: &[(u32, u32)]) -> Ranges {
    let pairs = some.iter().flat_map(|a| others.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))));
    pairs.filter(|(low, high)| low <= high).collect()
}

/// Returns a class body in the `regex` crate's syntax.
pub(crate) fn spell(ranges: &[(u32, u32)]) -> String {
    let mut text = String::new();
    for &(low, high) in ranges {
        for (from, to) in [(0, 0xd7ff), (0xd800, 0xdfff), (0xe000, 0x10_ffff)] {
            let low = low.max(from);
            let high = high.min(to);
            if let (true, Some(low), Some(high)) = (low <= high, stand_in(low), stand_in(high)) {
                text.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(low), u32::from(high)));
            }
        }
    }
    text
}

/// ECMAScript's `Canonicalize` without `u`: upper case if that is one code unit and not ASCII.
fn canonical(unit: u32) -> u32 {
    let Some(c) = char::from_u32(unit) else { return unit };
    let mut upper = c.to_uppercase();
    match (upper.next().map(u32::from), upper.next()) {
        (Some(upper), None) if upper <= 0xffff && !(unit >= 128 && upper < 128) => upper,
        _ => unit,
    }
}

/// Case groups: code units that `i` equates, in groups of two or more.
static CASES: LazyLock<Vec<Vec<u32>>> = LazyLock::new(|| {
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for unit in 0..0x1_0000 {
        groups.entry(canonical(unit)).or_default().push(unit);
    }
    groups.into_values().filter(|group| group.len() > 1).collect()
});

/// Returns the set with all case variants of its members under `i`.
pub(crate) fn with_cases(ranges: &[(u32, u32)]) -> Ranges {
    if ranges.iter().all(|&(_, high)| high < 128) {
        let mut out = ranges.to_vec();
        for &(low, high) in ranges {
            let letters = (low..=high).filter_map(char::from_u32).filter(char::is_ascii_alphabetic);
            out.extend(letters.map(|c| u32::from(c) ^ 0x20).map(|unit| (unit, unit)));
        }
        return out;
    }
    let mut out = ranges.to_vec();
    let has = |unit: &u32| ranges.iter().any(|(low, high)| (low..=high).contains(&unit));
    for group in CASES.iter().filter(|group| group.iter().any(has)) {
        out.extend(group.iter().map(|&unit| (unit, unit)));
    }
    out
}
