//! Rules, and what holds under them.

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

/// Bytes of a text that cost one step to read.
const BYTES_PER_STEP: usize = 8;

/// Word under `$is`, compiled.
#[derive(Clone, Debug)]
pub enum MatchRule {
    /// Anything, as long as it is there.
    Any,
    /// Nothing: the key is not there.
    Absent,
    /// A number this near.
    Near {
        /// Expected number.
        to: Number,
        /// Largest distance that still counts.
        within: f64,
    },
    /// A text in which the pattern is found.
    Pattern(Regex),
    /// One of these.
    OneOf(Vec<Expected>),
    /// A number from the first to the last, both included; `None` is open.
    Range(Option<Number>, Option<Number>),
    /// A list of these in any order, each as often as it stands here.
    Unordered(Vec<Expected>),
    /// A text, a list or an object that holds something.
    Contains(Contained),
    /// A moment, in whatever form and zone it is written.
    Instant(Timestamp),
    /// A text under named options.
    Text(ExpectedText),
    /// The JSON text of a value, however it is written, or the value itself.
    Json(Expected),
}

/// Content that another value must hold.
#[derive(Clone, Debug)]
pub enum Contained {
    /// A part of a text, or an item of a list.
    Text(String),
    /// Items of a list.
    Items(Vec<Expected>),
    /// Entries of an object, or an item of a list.
    Entries(Expected),
    /// An item of a list.
    Item(Expected),
}

/// Expected text with the differences that do not count.
#[derive(Clone, Debug)]
pub struct ExpectedText {
    text: String,
    /// White space at both ends does not count.
    trim: bool,
    /// The case of letters does not count.
    fold_case: bool,
    /// Composed and decomposed characters are the same.
    nfc: bool,
}

impl MatchRule {
    /// Returns true if a value, or its absence, is as the rule says.
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

/// Charges the reading of a text; `false` where the steps do not suffice.
fn reads(matching: &MatchContext<'_>, text: &str) -> bool {
    matching.effort.spend(1 + text.len() / BYTES_PER_STEP)
}

/// Returns true if two numbers differ by no more than the tolerance. The edge counts: doubles that
/// stand for decimals differ by a little more than the decimals do.
fn is_near(to: &Number, within: f64, actual: &Number) -> bool {
    if let (Number::Int(to), Number::Int(actual)) = (to, actual) {
        return (i128::from(*to) - i128::from(*actual)).unsigned_abs() as f64 <= within;
    }
    let wanted = to.as_f64();
    let found = actual.as_f64();
    let rounding = f64::EPSILON * wanted.abs().max(found.abs());
    to == actual || (wanted - found).abs() <= within + rounding
}

/// Reads a moment: a date, a date with a time, or that with an offset; without one it is UTC.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    /// Longest text that is read.
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
    /// Returns the text with what does not count removed.
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
