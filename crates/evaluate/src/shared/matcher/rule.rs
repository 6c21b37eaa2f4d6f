//! Compiled rules of matchers.

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use regex::Regex;

use super::{Expected, MatchContext};
use crate::shared::arguments::ArgumentMode;
use crate::shared::text;
use spanscore_base::value::{Number, Value};

/// Bytes of a text read in one step.
const BYTES_PER_STEP: usize = 8;

/// Word under `$is`, compiled.
#[derive(Clone, Debug)]
pub enum MatchRule {
    /// Any present value.
    Any,
    /// An absent key.
    Absent,
    /// Number within a distance.
    Near {
        /// Expected number.
        to: Number,
        /// Largest accepted distance.
        within: f64,
    },
    /// Text with a match of the pattern.
    Pattern(Regex),
    /// One of several values.
    OneOf(Vec<Expected>),
    /// Number in an inclusive range; `None` is unbounded.
    Range(Option<Number>, Option<Number>),
    /// List with these items in any order, as a multiset.
    Unordered(Vec<Expected>),
    /// Text, list or object with a given content.
    Contains(Contained),
    /// Point in time, in any notation and zone.
    Instant(Timestamp),
    /// Text with comparison options.
    Text(ExpectedText),
    /// JSON text of a value in any spelling, or the value itself.
    Json(Expected),
}

/// Content required in another value.
#[derive(Clone, Debug)]
pub enum Contained {
    /// Substring of a text, or item of a list.
    Text(String),
    /// Items of a list.
    Items(Vec<Expected>),
    /// Entries of an object, or item of a list.
    Entries(Expected),
    /// Item of a list.
    Item(Expected),
}

/// Expected text, with options for ignored differences.
#[derive(Clone, Debug)]
pub struct ExpectedText {
    text: String,
    /// True if white space at both ends is ignored.
    trim: bool,
    /// True if case is ignored.
    fold_case: bool,
    /// True if composed and decomposed characters are equal.
    nfc: bool,
}

impl MatchRule {
    /// Returns true if a value, or its absence, satisfies the rule.
    pub(super) fn holds(&self, matching: &MatchContext<'_>, actual: Option<&Value<'_>>) -> bool {
        if let Self::OneOf(values) = self {
            return values.iter().any(|expected| matching.value(expected, actual));
        }
        let Some(actual) = actual else { return matches!(self, Self::Absent) };
        match (self, actual) {
            (Self::Any, _) => true,
            (Self::Near { to, within }, Value::Number(actual)) => is_near(to, *within, actual),
            (Self::Range(from, to), Value::Number(actual)) => {
                from.as_ref().is_none_or(|from| actual >= from)
                    && to.as_ref().is_none_or(|to| actual <= to)
            }
            (Self::Pattern(pattern), Value::String(actual)) => {
                reads(matching, actual) && pattern.is_match(actual)
            }
            (Self::Unordered(items), Value::List(actual)) => {
                items.len() == actual.len() && matching.each_among(items, actual)
            }
            (Self::Contains(contained), _) => contained.is_in(matching, actual),
            (Self::Instant(expected), Value::String(actual)) => instant(actual) == Some(*expected),
            (Self::Text(expected), Value::String(actual)) => {
                reads(matching, actual) && expected.is(actual)
            }
            (Self::Json(expected), _) => matching.result(expected, Some(actual)),
            _ => false,
        }
    }
}

/// Charges the reading of a text; `false` if the budget does not suffice.
fn reads(matching: &MatchContext<'_>, text: &str) -> bool {
    matching.effort.spend(1 + text.len() / BYTES_PER_STEP)
}

/// Returns true if two numbers differ by at most the tolerance, plus a rounding margin: doubles of
/// decimals may differ by more than the decimals.
fn is_near(to: &Number, within: f64, actual: &Number) -> bool {
    if let (Number::Int(to), Number::Int(actual)) = (to, actual) {
        return (i128::from(*to) - i128::from(*actual)).unsigned_abs() as f64 <= within;
    }
    let wanted = to.as_f64();
    let found = actual.as_f64();
    let rounding = f64::EPSILON * wanted.abs().max(found.abs());
    to == actual || (wanted - found).abs() <= within + rounding
}

/// Parses a point in time: a date, a date with a time, or that with an offset; UTC without one.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    /// Longest parsed text, bytes.
    const BYTES_MAX: usize = 64;
    let text = text.trim();
    if text.len() > BYTES_MAX {
        return None;
    }
    if let Ok(instant) = text.parse() {
        return Some(instant);
    }
    let local: DateTime = text.parse().ok()?;
    local.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

impl Contained {
    fn is_in(&self, matching: &MatchContext<'_>, actual: &Value<'_>) -> bool {
        match (self, actual) {
            (Self::Text(part), Value::String(actual)) => {
                reads(matching, actual) && actual.contains(&**part)
            }
            (Self::Text(text), Value::List(items)) => {
                matching.effort.spend(items.len())
                    && items.iter().any(|item| {
                        item.as_str().is_some_and(|item| matching.options.equal_texts(text, item))
                    })
            }
            (Self::Items(wanted), Value::List(items)) => matching.each_among(wanted, items),
            (Self::Entries(Expected::Map(wanted)), Value::Map(actual)) => {
                matching.map(wanted, actual, ArgumentMode::Subset, &[])
            }
            (Self::Entries(item) | Self::Item(item), Value::List(items)) => {
                items.iter().any(|found| matching.value(item, Some(found)))
            }
            _ => false,
        }
    }
}

impl ExpectedText {
    /// Normalizes a text by removing ignored differences.
    pub(super) fn new(text: &str, trim: bool, fold_case: bool, nfc: bool) -> Self {
        let mut folded = Self { text: String::new(), trim, fold_case, nfc };
        folded.text = folded.fold(text).into_owned();
        folded
    }

    fn fold<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let text = if self.trim { text.trim() } else { text };
        if self.nfc {
            ComposingNormalizerBorrowed::new_nfc().normalize(text)
        } else {
            Cow::Borrowed(text)
        }
    }

    fn is(&self, actual: &str) -> bool {
        let actual = self.fold(actual);
        self.text == actual || (self.fold_case && text::equal_ignoring_case(&self.text, &actual))
    }
}
