//! Comparison of call arguments: the definition of equal calls.
//!
//! Numbers are compared by value, objects in any order, lists in order. The modes define the
//! comparison of top-level keys; nested values must be equal, except with `nested_subset`. The
//! rules are those of Dokimos (`dokimos-dev/dokimos`, `TolerantArgumentMatcher`).

pub(crate) mod counters;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};

use schemars::JsonSchema;
use serde::Deserialize;

use super::text;
use spanscore_base::settings::SettingsError;
use spanscore_base::value::{Map, Number, Value, hash_entries, mix};

/// Comparison of the arguments of a call with the expected ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentMode {
    /// The same arguments with equal values.
    #[default]
    #[serde(alias = "EXACT")]
    Exact,
    /// All expected arguments with equal values. Further ones are allowed.
    #[serde(alias = "SUBSET")]
    Subset,
    /// All expected entries, also in nested objects. Further entries are allowed.
    NestedSubset,
    /// No arguments beyond the expected ones, and equal values. Some may be missing.
    #[serde(alias = "SUPERSET")]
    Superset,
    /// No comparison.
    #[serde(alias = "IGNORE")]
    Ignore,
}

/// Comparison of the arguments of two calls.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArgumentMatcher {
    /// Comparison of the arguments: `exact` (default); `subset` allows further arguments;
    /// `nested_subset` also allows further entries in nested objects and in lists of equal length;
    /// `superset` allows missing arguments; `ignore` compares nothing.
    pub mode: ArgumentMode,
    /// Removes white space at both ends of texts before the comparison. Default `false`.
    pub trim_strings: bool,
    /// Compares texts without regard to case. Keys keep their case. Default `false`.
    pub case_insensitive: bool,
    /// Paths that are compared, such as `city` or `address.zip`; nothing else is compared. A value
    /// that is missing on both sides is equal. Default: all arguments, as `mode` says.
    pub keys: Vec<String>,
    /// Arguments that are not compared, by their name at the top level, such as a cursor.
    pub ignore: Vec<String>,
    /// Matchers for single arguments, by name, instead of the expected values, such as `{amount:
    /// {near: 90, within: 0.01}, note: any}`. They apply to every expected call that is written
    /// with arguments or without any, and with `compat`, too.
    #[serde(rename = "match")]
    pub rules: BTreeMap<String, Value<'static>>,
}

/// Compares a value of the whole with one of the part.
type SameValue = fn(&ArgumentMatcher, &Value<'_>, &Value<'_>) -> bool;

impl ArgumentMatcher {
    /// Returns true if arguments count.
    pub fn reads_arguments(&self) -> bool {
        self.mode != ArgumentMode::Ignore || !self.keys.is_empty()
    }

    /// Rejects rules for single arguments, in kinds that compare calls with each other.
    pub fn without_rules(&self) -> Result<(), SettingsError> {
        if self.rules.is_empty() {
            return Ok(());
        }
        Err(SettingsError::new("`match` goes only with expected calls")
            .with_help("use `ignore` to leave arguments out"))
    }

    /// Returns true if matching is symmetric and transitive, so that calls can be grouped by
    /// [`hash`](Self::hash).
    pub fn is_symmetric(&self) -> bool {
        matches!(self.mode, ArgumentMode::Exact | ArgumentMode::Ignore) || !self.keys.is_empty()
    }

    /// Returns true if `actual` matches `expected`. `Null` means no arguments.
    pub fn matches(&self, expected: &Value<'_>, actual: &Value<'_>) -> bool {
        if !self.keys.is_empty() {
            return self
                .keys
                .iter()
                .all(|path| self.equal_or_absent(at_path(expected, path), at_path(actual, path)));
        }
        if self.mode == ArgumentMode::Ignore {
            return true;
        }
        match (expected.as_arguments(), actual.as_arguments()) {
            (Some(expected), Some(actual)) if !self.ignore.is_empty() => {
                self.matches_counted(expected, actual)
            }
            (Some(expected), Some(actual)) => match self.mode {
                ArgumentMode::Exact => self.equal_maps(expected, actual),
                ArgumentMode::Subset => self.contains(actual, expected, Self::equal),
                ArgumentMode::NestedSubset => self.contains(actual, expected, Self::covers),
                ArgumentMode::Superset => self.contains(expected, actual, Self::equal),
                ArgumentMode::Ignore => true,
            },
            _ => self.equal(expected, actual),
        }
    }

    /// Returns true if the objects match without ignored entries.
    fn matches_counted(&self, expected: &Map<'_>, actual: &Map<'_>) -> bool {
        let is_counted = |key: &str| !self.is_ignored(key);
        let count = |map: &Map<'_>| map.iter().filter(|(key, _)| is_counted(key)).count();
        let (part, whole) = match self.mode {
            ArgumentMode::Superset => (actual, expected),
            _ => (expected, actual),
        };
        if self.mode == ArgumentMode::Exact && count(part) != count(whole) {
            return false;
        }
        let whole = whole.by_key();
        let mut counted = part.iter().filter(|(key, _)| is_counted(key));
        counted.all(|(key, value)| {
            whole.get(key).is_some_and(|found| self.matches_below(value, found))
        })
    }

    /// Returns true if an argument is ignored.
    pub fn is_ignored(&self, key: &str) -> bool {
        self.ignore.iter().any(|ignored| ignored == key)
    }

    /// Returns true if a nested value matches.
    pub fn matches_below(&self, expected: &Value<'_>, actual: &Value<'_>) -> bool {
        match self.mode {
            ArgumentMode::NestedSubset => self.covers(actual, expected),
            _ => self.equal(expected, actual),
        }
    }

    /// Returns true if `whole` contains all of `part`, recursively.
    fn covers(&self, whole: &Value<'_>, part: &Value<'_>) -> bool {
        match (whole, part) {
            (Value::List(whole), Value::List(part)) => {
                whole.len() == part.len()
                    && whole.iter().zip(part).all(|(whole, part)| self.covers(whole, part))
            }
            (Value::Map(whole), Value::Map(part)) => self.contains(whole, part, Self::covers),
            _ => self.equal(whole, part),
        }
    }

    /// Returns true if two values are equal with the options for texts.
    pub fn equal(&self, a: &Value<'_>, b: &Value<'_>) -> bool {
        match (a, b) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Number(a), Value::Number(b)) => equal_numbers(a, b),
            (Value::String(a), Value::String(b)) => self.equal_texts(a, b),
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.equal(a, b))
            }
            (Value::Map(a), Value::Map(b)) => self.equal_maps(a, b),
            _ => false,
        }
    }

    fn equal_or_absent(&self, a: Option<&Value<'_>>, b: Option<&Value<'_>>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => self.equal(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    fn equal_maps(&self, a: &Map<'_>, b: &Map<'_>) -> bool {
        a.len() == b.len() && self.contains(a, b, Self::equal)
    }

    /// Returns true if each entry of `part` is in `whole`, with a value equal by `same`.
    fn contains(&self, whole: &Map<'_>, part: &Map<'_>, same: SameValue) -> bool {
        if part.len() > whole.len() {
            return false;
        }
        if part.iter().zip(whole.iter()).all(|((a, _), (b, _))| a == b) {
            // The same keys in the same order, which is usual for two calls of one tool.
            return part.iter().zip(whole.iter()).all(|((_, a), (_, b))| same(self, b, a));
        }
        let whole = whole.by_key();
        part.iter().all(|(key, value)| whole.get(key).is_some_and(|f| same(self, f, value)))
    }

    /// Returns true if two texts are equal with the options.
    pub fn equal_texts(&self, a: &str, b: &str) -> bool {
        let (a, b) = if self.trim_strings { (text::trim(a), text::trim(b)) } else { (a, b) };
        a == b || (self.case_insensitive && text::equal_ignoring_case(a, b))
    }

    /// Returns a hash that is equal for matching arguments; only if
    /// [`is_symmetric`](Self::is_symmetric).
    pub fn hash(&self, arguments: &Value<'_>, build: &impl BuildHasher) -> u64 {
        let text = |text: &str| self.hash_text(text, build);
        if !self.keys.is_empty() {
            let parts = self.keys.iter().map(|path| at_path(arguments, path));
            return parts
                .map(|part| part.map_or(0, |value| value.hash_by(build, &text)))
                .fold(0, mix);
        }
        if self.mode == ArgumentMode::Ignore {
            return 0;
        }
        match arguments.as_arguments() {
            Some(map) => {
                let counted = map.iter().filter(|(key, _)| !self.is_ignored(key));
                hash_entries(counted, build, &text)
            }
            None => arguments.hash_by(build, &text),
        }
    }

    fn hash_text(&self, text: &str, build: &impl BuildHasher) -> u64 {
        let text = if self.trim_strings { text::trim(text) } else { text };
        if !self.case_insensitive {
            return build.hash_one(text);
        }
        let mut hasher = build.build_hasher();
        text.chars().for_each(|c| text::fold(c).hash(&mut hasher));
        hasher.finish()
    }
}

/// Returns the value at a dotted path of keys, or under the whole path as one key; `null` counts as
/// absent.
pub(super) fn at_path<'v, 'a>(value: &'v Value<'a>, path: &str) -> Option<&'v Value<'a>> {
    let found = match value.get(path) {
        Some(found) => Some(found),
        None => path.split('.').try_fold(value, |value, key| value.get(key)),
    };
    found.filter(|value| !value.is_null())
}

/// Returns true if two numbers are equal as decimals: a double is its shortest decimal that parses
/// to the same double, and an infinite one equals every number that overflows a double.
pub fn equal_numbers(a: &Number, b: &Number) -> bool {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a == b,
        (Number::Big(a), Number::Big(b)) => a == b,
        (Number::Float(a), Number::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
        (Number::Float(float), whole) | (whole, Number::Float(float)) => {
            equal_float_and_integer(*float, whole)
        }
        // One exceeds 64 bits and the other does not.
        _ => false,
    }
}

fn equal_float_and_integer(float: f64, whole: &Number) -> bool {
    /// Below this, an integral double prints all its digits.
    const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
    if whole.as_f64() != float {
        return false;
    }
    if float.abs() < EXACT_BELOW || float.is_infinite() {
        return true;
    }
    // `1.152921504606847e18`: the digits, then zeros up to the exponent.
    let printed = format!("{:e}", float.abs());
    let (mantissa, exponent) = printed.split_once('e').unwrap_or((&printed, "0"));
    let exponent: usize = exponent.parse().unwrap_or(0);
    let digits = mantissa.bytes().filter(u8::is_ascii_digit);
    let digits = digits.chain(std::iter::repeat(b'0')).take(exponent + 1);
    let whole = whole.to_string();
    digits.eq(whole.trim_start_matches('-').bytes())
}

#[cfg(test)]
mod tests;
