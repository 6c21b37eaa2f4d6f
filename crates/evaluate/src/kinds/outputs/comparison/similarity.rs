//! Similarity of two JSON values, leaf by leaf of the expected one.

use spanscore_base::model::WorkBudget;
use spanscore_base::value::Number;
use spanscore_base::value::python::PyValue;

/// Leaves of the expected value: their number, and the sum of their matches from 0 to 1.
#[derive(Clone, Copy, Default)]
pub(super) struct Leaves {
    pub(super) matched: f64,
    pub(super) total: f64,
}

impl Leaves {
    /// Returns the matched share; 1 without expected leaves.
    pub(super) fn share(self) -> f64 {
        if self.total == 0.0 { 1.0 } else { clamp(self.matched / self.total) }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.matched += other.matched;
        self.total += other.total;
    }
}

/// Compares two values; `None` if the budget does not suffice.
pub(super) fn compare(
    expected: &PyValue<'_>,
    actual: &PyValue<'_>,
    effort: &WorkBudget,
) -> Option<Leaves> {
    use PyValue as V;
    let leaf = |matched| Some(Leaves { matched, total: 1.0 });
    match (expected, actual) {
        (V::Number(expected), V::Number(actual)) => leaf(numbers(expected, actual)),
        (V::Dict(entries), V::Dict(found)) => {
            // An upper bound: each key is searched for linearly.
            take(effort, entries.len().checked_mul(found.len())?)?;
            let mut sum = Leaves::default();
            for (key, value) in entries {
                let found = match key {
                    V::Str(key) => key.as_str().and_then(|key| actual.get(key)),
                    _ => None,
                };
                sum.add(match found {
                    Some(found) => compare(value, found, effort)?,
                    None => missing(value),
                });
            }
            Some(sum)
        }
        (V::List(items), V::List(found)) => {
            let mut sum = Leaves::default();
            for (at, item) in items.iter().enumerate() {
                sum.add(match found.get(at) {
                    Some(found) => compare(item, found, effort)?,
                    None => missing(item),
                });
            }
            Some(sum)
        }
        (V::Bool(expected), V::Bool(actual)) => leaf(if expected == actual { 1.0 } else { 0.0 }),
        (V::Str(expected), V::Str(actual)) => {
            let texts = [expected, actual].map(|text| text.code_points().collect::<Vec<u32>>());
            leaf(strings(&texts[0], &texts[1], effort)?)
        }
        (V::None, V::None) => leaf(1.0),
        _ => Some(missing(expected)),
    }
}

fn take(effort: &WorkBudget, count: usize) -> Option<()> {
    effort.spend(count).then_some(())
}

pub(super) fn missing(expected: &PyValue<'_>) -> Leaves {
    Leaves { matched: 0.0, total: count(expected) }
}

fn count(value: &PyValue<'_>) -> f64 {
    match value {
        PyValue::Dict(entries) => entries.iter().map(|(_, value)| count(value)).sum::<f64>() + 0.0,
        PyValue::List(items) => items.iter().map(count).sum::<f64>() + 0.0,
        _ => 1.0,
    }
}

/// Returns the relative closeness of two numbers; NaN counts as close, as with Python's `min`.
fn numbers(expected: &Number, actual: &Number) -> f64 {
    if expected == actual {
        return 1.0;
    }
    if let (Number::Float(expected), Number::Float(actual)) = (expected, actual) {
        return doubles(*expected, *actual);
    }
    // One is an integer that no double represents. Different numbers stay below 1.
    const ALMOST: f64 = 1.0 - f64::EPSILON / 2.0;
    let closeness = match expected.as_f64() {
        double if double.is_finite() => doubles(double, actual.as_f64()),
        _ => clamp(1.0 - (1.0 - ratio(actual, expected)).abs()),
    };
    closeness.min(ALMOST)
}

fn doubles(expected: f64, actual: f64) -> f64 {
    const TINY: f64 = 1e-12;
    if expected.abs() <= TINY {
        return if actual.abs() <= TINY { 1.0 } else { 0.0 };
    }
    clamp(1.0 - (expected - actual).abs() / expected.abs())
}

/// Returns the quotient of numbers that may exceed the range of doubles.
fn ratio(one: &Number, other: &Number) -> f64 {
    // The leading digits, and the number of digits after them.
    let scaled = |number: &Number| -> (f64, i32) {
        const LEADING: usize = 20;
        let text = if number.is_integer() { number.to_string() } else { String::new() };
        match text.get(..LEADING) {
            Some(leading) => {
                let rest = i32::try_from(text.len() - LEADING).unwrap_or(i32::MAX);
                (leading.parse().unwrap_or(f64::NAN), rest)
            }
            None => (number.as_f64(), 0),
        }
    };
    let (one, zeros) = scaled(one);
    let (other, other_zeros) = scaled(other);
    if one.is_infinite() {
        return one;
    }
    one / other * 10_f64.powi(zeros.saturating_sub(other_zeros))
}

fn clamp(value: f64) -> f64 {
    let most = if value < 1.0 { value } else { 1.0 };
    if most > 0.0 { most } else { 0.0 }
}

/// Returns the edit similarity: 1 minus the edit distance divided by the longer text's code points.
fn strings(expected: &[u32], actual: &[u32], effort: &WorkBudget) -> Option<f64> {
    let longest = expected.len().max(actual.len());
    if longest == 0 {
        return Some(1.0);
    }
    let edits = levenshtein(expected, actual, effort)?;
    Some(clamp(1.0 - edits as f64 / longest as f64))
}

fn levenshtein(a: &[u32], b: &[u32], effort: &WorkBudget) -> Option<usize> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let a = &a[head..];
    let b = &b[head..];
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let a = &a[..a.len() - tail];
    let b = &b[..b.len() - tail];
    take(effort, a.len().checked_mul(b.len())?)?;
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_in_code_points() {
        let check = |a: &str, b: &str, edits: usize| {
            let [a, b] = [a, b].map(|text| text.chars().map(u32::from).collect::<Vec<_>>());
            assert_eq!(levenshtein(&a, &b, &WorkBudget::default()), Some(edits));
        };
        check("kitten", "sitting", 3);
        check("", "ab", 2);
        check("añb", "aab", 1);
        check("abc", "abc", 0);
    }

    #[test]
    fn numbers_are_as_close_as_their_quotient_and_1_only_where_they_are_equal() {
        let number = |text: &str| Number::from_decimal(text).unwrap();
        let check = |expected: &Number, actual: &Number, least: f64, most: f64| {
            let found = numbers(expected, actual);
            assert!((least..=most).contains(&found), "{expected} and {actual}: {found}");
        };
        let two_to_53 = 9_007_199_254_740_992.0;
        check(&number("9007199254740993"), &Number::Float(two_to_53), 0.999, 1.0 - 1e-16);
        check(&Number::Float(two_to_53), &number("9007199254740993"), 0.999, 1.0 - 1e-16);
        check(&number("9007199254740993"), &number("9007199254740993"), 1.0, 1.0);
        let beyond = |digits: &str| number(&format!("{digits}{}", "0".repeat(400)));
        check(&beyond("2"), &beyond("2"), 1.0, 1.0);
        check(&beyond("2"), &beyond("1"), 0.499, 0.501);
        check(&beyond("-2"), &beyond("1"), 0.0, 0.0);
        check(&beyond("2"), &Number::Float(5.0), 0.0, 1e-9);
        check(&Number::Float(5.0), &beyond("2"), 0.0, 0.0);
        check(&beyond("2"), &Number::Float(f64::INFINITY), 0.0, 0.0);
        check(&Number::Float(f64::NAN), &Number::Float(1.0), 1.0, 1.0);
    }

    #[test]
    fn texts_past_the_limit_are_not_compared() {
        let [a, b] = ["aaaa", "bbbb"].map(PyValue::text);
        let effort = &WorkBudget::new(31);
        assert!(compare(&a, &a, effort).is_some(), "what is equal takes no steps");
        assert_eq!(compare(&a, &b, effort).map(Leaves::share), Some(0.0));
        assert!(compare(&a, &b, effort).is_none(), "the second pair would take the 32nd step");
    }
}
