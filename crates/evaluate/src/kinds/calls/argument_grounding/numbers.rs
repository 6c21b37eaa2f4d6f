//! Numbers known to the agent, and numbers derived from them.

use hashbrown::{HashMap, HashSet};

use crate::shared::arguments::counters::{KEY_BYTES_MAX, is_counter};
use crate::shared::roles;
use spanscore_base::model::WorkBudget;
use spanscore_base::value::{Map, Value};

/// Limit on the numbers under one key in one list or result that are added.
const ADDED_MAX: usize = 20;
/// Limit on the numbers under one key that are grouped, and on the groups.
const GROUPS_MAX: usize = 256;
/// Range of multipliers: seats, nights, pieces.
const TIMES: std::ops::RangeInclusive<u8> = 2..=9;
const ONCE: usize = 1;
/// The multipliers in words.
const TIMES_WORDS: [&str; 8] = ["two", "three", "four", "five", "six", "seven", "eight", "nine"];
/// Parts of keys with counts; also the length of their lists counts.
const QUANTITIES: [&str; 16] = [
    "quantity", "qty", "count", "night", "guest", "passenger", "unit", "piece", "item", "people",
    "person", "adult", "child", "ticket", "travel", "seats",
];
/// Endings of keys with the quantity of an entry; these numbers are never summed.
const PIECES: [&str; 5] = ["quantity", "qty", "pieces", "nights", "tickets"];
/// Endings of keys with unit prices, unless the key says total.
const OF_ONE: [&str; 5] = ["price", "cost", "rate", "fare", "amount"];
/// Endings of further keys with counts.
const STOCKS: [&str; 4] = ["quantities", "seats", "stock", "inventory"];
/// Limit on the numbers under one key that are added in pairs; with more, pairs match almost any
/// amount.
const PAIRED_MAX: usize = 6;
/// Last words of arguments with options or positions.
const CHOICES: [&str; 28] = [
    "width", "height", "x", "y", "r", "g", "b", "left", "right", "top", "bottom", "size", "dpi",
    "margin", "padding", "spacing", "opacity", "zoom", "page", "timeout", "ms", "length", "index",
    "depth", "radius", "tokens", "results", "chars",
];
/// Words in the names of arguments with text positions, such as lines; not those of invoices or
/// orders.
const POSITIONS: [&str; 20] = [
    "line", "lines", "number", "numbers", "start", "end", "begin", "from", "to", "first", "last",
    "max", "num", "insert", "after", "before", "offset", "limit", "context", "count",
];
/// Half of the smallest difference between amounts.
const TOLERANCE: f64 = 0.005;
/// Smallest differences in one unit.
const CENTS: f64 = 100.0;
/// Words before or after a page number, status code or count.
const BEFORE: [&str; 5] = ["page", "pages", "status", "http", "code"];
const AFTER: [&str; 8] =
    ["results", "result", "rows", "pages", "records", "matches", "entries", "hits"];
/// Words before a year.
const BEFORE_YEAR: [&str; 6] = ["in", "of", "since", "year", "until", "copyright"];

fn ends_with_one(key: &str, ends: &[&str]) -> bool {
    let key = key.to_lowercase();
    ends.iter().any(|end| key.ends_with(end))
}

/// Returns the quantity of an entry, if present.
fn pieces(entry: &Map<'_>) -> Option<f64> {
    let pieces = |value: &Value<'_>| match value {
        Value::Number(number) => Some(number.as_f64()).filter(|many| *many >= 2.0),
        _ => None,
    };
    entry.iter().find_map(|(key, value)| {
        pieces(value).filter(|_| key.len() <= KEY_BYTES_MAX && ends_with_one(key, &PIECES))
    })
}

/// Returns true for an argument with a number that the agent may choose.
pub(super) fn is_the_agents(key: &str) -> bool {
    if key.len() > KEY_BYTES_MAX {
        return false;
    }
    let words = roles::words(key);
    let is_choice = |word: &String| CHOICES.contains(&word.as_str());
    let is_position = |word: &String| POSITIONS.contains(&word.as_str());
    let is_line = || {
        words.iter().any(|word| word == "line" || word == "lines") && words.iter().all(is_position)
    };
    words.last().is_some_and(is_choice)
        || is_line()
        || is_counter(key) && !key.to_lowercase().contains("year")
}

/// Returns true for a text that contains only numbers and signs.
pub(super) fn is_expression(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_digit() || " +-*/().%$\u{20ac}\u{a3}".contains(c);
    text.chars().all(is_sign)
}

/// Reads a text that is one number or amount of money; returns its original digits too.
pub(super) fn of_text(text: &str) -> Option<(&str, f64)> {
    let digits = text.trim_matches([' ', '$', '\u{20ac}', '\u{a3}', '%']);
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit() || b"-.".contains(&b));
    digits.parse().ok().filter(|_| is_plain).map(|number| (digits, number))
}

/// Returns the numbers in an expression.
pub(super) fn of_expression(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    parts.map(|part| part.trim_matches('.')).filter(|part| !part.is_empty())
}

/// Returns the digits of a number in canonical form, without sign and trailing zeros.
pub(super) fn canonical(digits: &str) -> &str {
    let digits = digits.trim_start_matches('-');
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Multipliers named by a run or a call, as a bit set.
#[derive(Clone, Copy, Default)]
struct NamedTimes(u16);

impl NamedTimes {
    fn add(&mut self, times: usize) {
        if (ONCE..=*TIMES.end() as usize).contains(&times) {
            self.0 |= 1 << times;
        }
    }

    fn add_value(&mut self, value: &Value<'_>) {
        match value {
            Value::Number(number) if number.as_f64().fract() == 0.0 => {
                self.add(number.as_f64() as usize);
            }
            Value::List(list) => self.add(list.len()),
            _ => {}
        }
    }

    /// Adds the count under a key, if the key names one.
    fn add_keyed(&mut self, key: &str, value: &Value<'_>) {
        let mut named = Self::default();
        named.add_value(value);
        if named.0 & !self.0 != 0 && key.len() <= KEY_BYTES_MAX {
            let plain = key.replace(['_', '-'], "").to_lowercase();
            if QUANTITIES.iter().any(|part| plain.contains(part)) {
                self.0 |= named.0;
            }
        }
    }

    fn add_word(&mut self, word: &str) {
        let named = TIMES_WORDS.iter().position(|known| *known == word).map(|at| at + 2);
        self.add(named.or_else(|| word.parse().ok()).unwrap_or_default());
    }

    /// Returns the multipliers except one.
    fn several(self) -> impl Iterator<Item = u8> {
        TIMES.filter(move |times| self.0 & (1 << times) != 0)
    }
}

/// Numbers in a call that its amounts may derive from.
#[derive(Default)]
pub(super) struct AmountParts {
    /// Multipliers under keys with counts.
    keyed: NamedTimes,
    /// Small numbers of the call and the lengths of its lists.
    times: NamedTimes,
    /// Numbers under one key in one list: parts of one amount.
    parts: Vec<Vec<f64>>,
}

impl AmountParts {
    pub(super) fn of(arguments: &Value<'_>, effort: &WorkBudget) -> Self {
        let mut call = Self::default();
        let mut left = vec![("", arguments)];
        let mut has_lists = false;
        while let Some((key, value)) = left.pop() {
            call.times.add_value(value);
            call.keyed.add_keyed(key, value);
            let list = value.as_list().unwrap_or_default();
            let map = value.as_map();
            has_lists |= list.len() > ONCE;
            if effort.spend(1 + list.len() + map.map_or(0, Map::len)) {
                left.extend(list.iter().map(|item| ("", item)));
                left.extend(map.into_iter().flat_map(Map::iter));
            }
        }
        if has_lists {
            let mut numbers = KnownNumbers::default();
            numbers.add_value(arguments, effort, &mut |_, _| {});
            call.parts = numbers.groups;
            call.parts.retain(|parts| parts.len() > ONCE);
        }
        call
    }

    /// Returns the multipliers for amounts of this call: its keyed counts, else its other numbers
    /// and those of the run.
    fn times(&self, run: NamedTimes) -> NamedTimes {
        if self.keyed.0 > 0 { self.keyed } else { NamedTimes(self.times.0 | run.0) }
    }
}

/// Known numbers.
#[derive(Default)]
pub(super) struct KnownNumbers {
    known: HashSet<String>,
    /// Numbers under one key in one list or result.
    groups: Vec<Vec<f64>>,
    times: NamedTimes,
}

/// Key that groups the products of a number and its quantity.
const PRODUCTS: &str = "*";

/// Key of a number and its parent key: seats and prices may have the same classes.
type NestedKey<'v> = (&'v str, &'v str);

impl KnownNumbers {
    /// Adds the numbers in a text, except those of dates, counts or pages; `is_input` says that the
    /// user wrote it, so that its counts are kept.
    pub(super) fn add_text(&mut self, words: &[&str], in_date: &HashSet<usize>, is_input: bool) {
        for (at, word) in words.iter().enumerate() {
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            let before = at.checked_sub(1).map(|at| words[at]).unwrap_or_default();
            let after = words.get(at + 1).copied().unwrap_or_default();
            let counts = !is_input && (BEFORE.contains(&before) || AFTER.contains(&after));
            let is_year = word.len() == 4 && BEFORE_YEAR.contains(&before);
            if is_input && !in_date.contains(&at) {
                self.times.add_word(word);
            }
            if is_number && !in_date.contains(&at) && !counts && !is_year {
                self.known.insert(canonical(word).to_owned());
            }
        }
    }

    /// Adds the numbers of a result by key; calls `text` with its texts.
    pub(super) fn add_value(
        &mut self,
        value: &Value<'_>,
        effort: &WorkBudget,
        text: &mut dyn FnMut(&mut Self, &str),
    ) {
        let mut keyed = Vec::new();
        self.walk(value, ("", ""), effort, &mut keyed, text);
        self.group(&keyed, effort);
    }

    fn walk<'v>(
        &mut self,
        value: &'v Value<'_>,
        path: NestedKey<'v>,
        effort: &WorkBudget,
        keyed: &mut Vec<(NestedKey<'v>, f64)>,
        text: &mut dyn FnMut(&mut Self, &str),
    ) {
        let (above, key) = path;
        self.times.add_keyed(key, value);
        match value {
            Value::Number(_) if is_counter(key) => {}
            Value::Number(number) => {
                self.known.insert(canonical(&number.to_string()).to_owned());
                if key.len().max(above.len()) <= KEY_BYTES_MAX {
                    keyed.push((path, number.as_f64()));
                }
            }
            Value::String(part) => text(self, part),
            Value::List(list) => {
                let from = keyed.len();
                list.iter().for_each(|item| self.walk(item, path, effort, keyed, text));
                self.group(&keyed[from..], effort);
            }
            Value::Map(map) => {
                let entries = |map: &'v Map<'_>| map.iter();
                entries(map)
                    .for_each(|(below, item)| self.walk(item, (key, below), effort, keyed, text));
                if let Some(pieces) = pieces(map) {
                    self.add_products(pieces, map, keyed);
                }
            }
            _ => {}
        }
    }

    /// Adds products of price and quantity in an entry: `{"price": 20, "quantity": 3}`.
    fn add_products<'v>(
        &mut self,
        pieces: f64,
        entry: &'v Map<'_>,
        keyed: &mut Vec<(NestedKey<'v>, f64)>,
    ) {
        let is_of_one = |(key, _): &(&str, &Value<'_>)| {
            key.len() <= KEY_BYTES_MAX
                && ends_with_one(key, &OF_ONE)
                && !key.to_lowercase().contains("total")
        };
        for (key, value) in entry.iter().filter(is_of_one) {
            if let Value::Number(number) = value {
                let product = (number.as_f64() * pieces * CENTS).round() / CENTS;
                self.known.insert(canonical(&product.to_string()).to_owned());
                keyed.push(((key, PRODUCTS), product));
            }
        }
    }

    /// Keeps the numbers of each key up to the limit; nested lists are grouped at each level.
    fn group(&mut self, keyed: &[(NestedKey<'_>, f64)], effort: &WorkBudget) {
        let left = GROUPS_MAX.saturating_sub(self.groups.len());
        if left == 0 || !effort.spend(keyed.len()) {
            return;
        }
        let mut by_key: HashMap<NestedKey<'_>, Vec<f64>> = HashMap::new();
        for (key, number) in keyed {
            by_key.entry(*key).or_default().push(*number);
        }
        let is_few = |(key, numbers): &(NestedKey<'_>, Vec<f64>)| {
            let is_counted = |key: &str| ends_with_one(key, &PIECES) || ends_with_one(key, &STOCKS);
            numbers.len() <= ADDED_MAX && !is_counted(key.0) && !is_counted(key.1)
        };
        let few = by_key.into_iter().filter(is_few).map(|(_, numbers)| numbers);
        self.groups.extend(few.take(left));
    }

    pub(super) fn hold(&self, digits: &str) -> bool {
        self.known.contains(canonical(digits))
    }

    /// Returns the cost in steps of [`derive`](Self::derive).
    pub(super) fn steps(&self) -> usize {
        self.groups.iter().map(|group| group.len() * group.len()).sum()
    }

    /// Returns true if an amount derives from known numbers: the sum under a key, a sum of two, a
    /// multiple of either, or the remainder of such an amount after known parts in a list of the
    /// call.
    pub(super) fn derive(&self, amount: f64, call: &AmountParts, effort: &WorkBudget) -> bool {
        let knows = |number: f64| self.hold(&number.to_string());
        let is_rest = |parts: &Vec<f64>| {
            let total: f64 = parts.iter().sum();
            effort.spend(parts.len() + self.steps())
                && parts.contains(&amount)
                && parts.iter().filter(|part| !knows(**part)).count() == ONCE
                && (knows(total) || self.follows(total, call, 0))
        };
        self.follows(amount, call, PAIRED_MAX) || call.parts.iter().any(is_rest)
    }

    fn follows(&self, amount: f64, call: &AmountParts, paired_max: usize) -> bool {
        let is_it = |number: f64| (number - amount).abs() < TOLERANCE;
        let times = call.times(self.times);
        self.groups.iter().any(|group| {
            let sum: f64 = group.iter().sum();
            let mut pairs = group.iter().enumerate().filter(|_| group.len() <= paired_max);
            let is_times = |one: f64| times.several().any(|times| is_it(one * f64::from(times)));
            is_it(sum)
                || pairs.any(|(at, one)| group[at + 1..].iter().any(|other| is_it(one + other)))
                || is_times(sum)
                || group.iter().any(|one| is_times(*one))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    /// Adds lists of numbers in lists, that deep, and returns the groups kept and the steps taken.
    fn check(numbers: usize, deep: usize) -> (usize, u64) {
        let list = Value::List((0..numbers).map(Value::from).collect());
        let nested = (1..deep).fold(list, |inner, _| Value::List(vec![inner]));
        let effort = WorkBudget::default();
        let mut known = KnownNumbers::default();
        known.add_value(&nested, &effort, &mut |_, _| {});
        assert!(known.hold("1"));
        (known.groups.len(), effort.taken())
    }

    #[test]
    fn lines_of_a_text_are_the_agents_and_those_of_an_order_are_not() {
        for (key, expected) in [
            ("line", true),
            ("start_line", true),
            ("endLine", true),
            ("line_number", true),
            ("insert_line", true),
            ("line_id", false),
            ("line_item_id", false),
            ("invoice_line", false),
            ("size", true),
            ("size_id", false),
        ] {
            assert_eq!(is_the_agents(key), expected, "{key}");
        }
    }

    #[test]
    fn pieces_multiply_what_one_of_them_comes_to() {
        for (entry, product, expected) in [
            (r#"{"price": 8.7, "quantity": 3}"#, "26.1", true),
            (r#"{"unitPrice": 19.99, "qty": 5}"#, "99.95", true),
            (r#"{"order_id": 1234, "price": 20, "quantity": 3}"#, "3702", false),
            (r#"{"total": 60, "price": 20, "quantity": 3}"#, "180", false),
            (r#"{"total_price": 60, "quantity": 3}"#, "180", false),
        ] {
            let mut known = KnownNumbers::default();
            let entry = json::parse(entry).unwrap();
            known.add_value(&entry, &WorkBudget::default(), &mut |_, _| {});
            assert_eq!(known.hold(product), expected, "{entry}");
        }
    }

    #[test]
    fn numbers_under_a_huge_key_are_known_and_not_grouped() {
        let groups = |key: String| {
            let list = Value::List((0..3).map(Value::from).collect());
            let value = Value::Map([(key, list)].into_iter().collect::<Map<'_>>());
            let mut known = KnownNumbers::default();
            known.add_value(&value, &WorkBudget::default(), &mut |_, _| {});
            assert!(known.hold("2"));
            known.groups.len()
        };
        assert!(groups("k".repeat(KEY_BYTES_MAX)) > 0);
        assert_eq!(groups("k".repeat(KEY_BYTES_MAX + 1)), 0);
    }

    #[test]
    fn lists_in_lists_are_grouped_while_there_is_room_and_steps() {
        // The value as a whole is one level more.
        assert_eq!(check(3, 2), (3, 9));
        assert_eq!(check(3, 500), (GROUPS_MAX, 3 * GROUPS_MAX as u64));
        // Too many to be added up: no group is kept, each level is charged.
        assert_eq!(check(1000, 500), (0, 1000 * 501));
    }
}
