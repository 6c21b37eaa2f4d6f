//! Conditions on the fields of a JSON object, and the object reduced to the fields they read.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::config::{ConditionConfig, FieldDetectorConfig, Says};
use crate::limits::{ENTRIES_MAX, FIELD_BYTES_MAX, FIELDS_MAX, STEPS_PER_BYTE};
use crate::tree::SearchTree;
use spanscore_base::model::WorkBudget;
use spanscore_base::settings::SettingsError;
use spanscore_base::value::json::{self, fields};
use spanscore_base::value::{Map, Value};

/// Texts that mean an empty value, in lower case.
const NOTHING: &[&str] = &[
    "", "none", "null", "nil", "undefined", "false", "n/a", "0", "ok", "okay", "success",
    "no error", "no errors", "none.", "not_error",
];

/// Names of fields that detectors read: folded names, and suffixes of names.
pub(super) struct Wanted {
    names: HashSet<String>,
    /// With the `*` before each.
    endings: HashSet<String>,
}

impl Wanted {
    /// Collects the first names of paths; `*ed` is a suffix.
    pub(super) fn new<'n>(paths: impl Iterator<Item = &'n String>) -> Self {
        let (endings, names) = paths.cloned().partition(|path| path.starts_with('*'));
        Self { names, endings }
    }

    fn holds(&self, key: &str) -> bool {
        self.names.contains(key) || self.endings.iter().any(|ending| key.ends_with(&ending[1..]))
    }
}

/// Fields of one object that detectors read.
pub(super) struct ResultFields<'v> {
    entries: Vec<(String, Cow<'v, Value<'v>>)>,
    /// Bloom filter of their names, since most wanted names are absent.
    marks: u64,
    /// Number of all fields of the object.
    count: usize,
}

/// Returns a name in lower case, without `_`, `-` and spaces.
pub(super) fn folded(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    if name.is_ascii() {
        return letters.map(|letter| letter.to_ascii_lowercase()).collect();
    }
    letters.flat_map(char::to_lowercase).collect()
}

impl<'v> ResultFields<'v> {
    /// Picks the fields of an object.
    pub(super) fn of_map(map: &'v Map<'v>, wanted: &Wanted) -> Self {
        let mut found = Self { entries: Vec::new(), marks: 0, count: map.len() };
        let entries = map.iter().map(|(key, value)| (folded(key), value));
        for (key, value) in entries.filter(|(key, _)| wanted.holds(key)) {
            found.replace(key, Cow::Borrowed(value));
        }
        found
    }

    /// Picks the fields of a text that begins with a JSON object; of a truncated one those before
    /// the end. `None` without fields.
    pub(super) fn of_text(text: &'v str, wanted: &Wanted) -> Option<Self> {
        let mut found = Self { entries: Vec::new(), marks: 0, count: 0 };
        let whole = fields::walk(text, |key, value| {
            found.count += 1;
            let key = folded(key);
            if wanted.holds(&key) {
                found.replace(key, Cow::Owned(read(value.trim())));
            }
        });
        (whole.is_some() || found.count > 0).then_some(found)
    }

    /// Adds a field; of a repeated one the last counts. Bounded by [`FIELDS_MAX`], since suffixes
    /// may match any number of names.
    fn replace(&mut self, key: String, value: Cow<'v, Value<'v>>) {
        match self.entries.iter().position(|(known, _)| *known == key) {
            Some(at) => self.entries[at].1 = value,
            None if self.entries.len() < FIELDS_MAX => {
                self.marks |= mark(&key);
                self.entries.push((key, value));
            }
            None => {}
        }
    }

    /// Returns the number of all fields of the object.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns a field by its folded name.
    pub(super) fn get(&self, name: &str) -> Option<&Value<'v>> {
        let named = self.entries.iter().find(|(key, _)| key == name);
        named.map(|(_, value)| &**value)
    }

    /// Returns true if a value at a path passes.
    fn any_at(&self, path: &[String], passes: impl Fn(&Value<'v>) -> bool) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let leads = |value| below(value, rest).is_some_and(&passes);
        match first.strip_prefix('*') {
            Some(ending) => {
                let ends_so = self.entries.iter().filter(|(key, _)| key.ends_with(ending));
                ends_so.map(|(_, value)| &**value).any(leads)
            }
            None => self.get(first).is_some_and(leads),
        }
    }
}

/// Returns the filter bit of a name; for a suffix all bits.
fn mark(name: &str) -> u64 {
    match name.as_bytes() {
        [] | [b'*', ..] => u64::MAX,
        [first, ..] => 1 << ((usize::from(*first) + name.len() * 7) % 64),
    }
}

/// Returns the value at a path below another.
fn below<'a, 'v>(value: &'a Value<'v>, path: &[String]) -> Option<&'a Value<'v>> {
    path.iter().try_fold(value, |value, name| {
        let entry = || value.as_list()?.get(name.parse::<usize>().ok()?);
        let Some(map) = value.as_map() else { return entry() };
        map.iter().take(ENTRIES_MAX).find(|(key, _)| folded(key) == *name).map(|(_, v)| v)
    })
}

/// Parses a field's value; an overlarge one becomes a placeholder text.
fn read(text: &str) -> Value<'_> {
    let small = (text.len() <= FIELD_BYTES_MAX).then(|| json::parse(text).ok()).flatten();
    small.unwrap_or(Value::String(Cow::Borrowed("...")))
}

/// Compiled detector of fields.
pub(super) struct FieldDetector {
    pub(super) says: Says,
    pub(super) kind: String,
    pub(super) category: String,
    when: Vec<FieldCondition>,
    unless: Vec<FieldCondition>,
    keys_max: usize,
}

struct FieldCondition {
    paths: Vec<Vec<String>>,
    /// Filter bits of the first names of its paths.
    marks: u64,
    filled: bool,
    is: Vec<String>,
    range: Option<(i64, i64)>,
    matches: Option<SearchTree>,
}

impl FieldDetector {
    pub(super) fn new(config: &FieldDetectorConfig) -> Result<Self, SettingsError> {
        if config.kind.is_empty() || config.when.is_empty() {
            return Err(SettingsError::new("`kind` and `when` are needed"));
        }
        let compile = |conditions: &[ConditionConfig]| {
            conditions.iter().map(FieldCondition::new).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            says: config.says,
            kind: config.kind.clone(),
            category: config.category.clone(),
            when: compile(&config.when)?,
            unless: compile(&config.unless)?,
            keys_max: config.keys_max.unwrap_or(usize::MAX),
        })
    }

    /// Returns true if all `when` and no `unless` conditions hold, and the budget sufficed to test
    /// them.
    pub(super) fn hits(&self, fields: &ResultFields<'_>, effort: &WorkBudget) -> bool {
        fields.count() <= self.keys_max
            && self.when.iter().all(|condition| condition.holds(fields, effort))
            && !self.unless.iter().any(|condition| condition.holds(fields, effort))
            && !effort.is_spent()
    }

    /// Returns the top-level names that it reads.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        let conditions = self.when.iter().chain(&self.unless);
        conditions.flat_map(|condition| condition.paths.iter().filter_map(|path| path.first()))
    }
}

impl FieldCondition {
    fn new(config: &ConditionConfig) -> Result<Self, SettingsError> {
        let range = (config.from.is_some() || config.to.is_some())
            .then(|| (config.from.unwrap_or(i64::MIN), config.to.unwrap_or(i64::MAX)));
        let tests =
            [config.filled, !config.is.is_empty(), range.is_some(), config.matches.is_some()];
        if config.at.is_empty() || tests.iter().filter(|given| **given).count() != 1 {
            let help = "as in `{at: [status], is: [error]}`";
            return Err(SettingsError::new(
                "a condition needs `at`, and one of `filled`, `is`, `from` with `to`, `matches`",
            )
            .with_help(help));
        }
        let compile = |text: &String| {
            let hir = regex_syntax::parse(text);
            let hir = hir
                .map_err(|error| SettingsError::new(format!("`{text}` is no expression: {error}")));
            Ok::<_, SettingsError>(SearchTree::of(&hir?, true))
        };
        let paths: Vec<Vec<String>> =
            config.at.iter().map(|at| at.split('.').map(folded).collect()).collect();
        Ok(Self {
            marks: paths.iter().fold(0, |marks, path| marks | mark(&path[0])),
            paths,
            filled: config.filled,
            is: config.is.iter().map(|text| text.to_lowercase()).collect(),
            range,
            matches: config.matches.as_ref().map(compile).transpose()?,
        })
    }

    fn holds(&self, fields: &ResultFields<'_>, effort: &WorkBudget) -> bool {
        fields.marks & self.marks != 0
            && self.paths.iter().any(|path| fields.any_at(path, |value| self.passes(value, effort)))
    }

    fn passes(&self, value: &Value<'_>, effort: &WorkBudget) -> bool {
        if self.filled {
            return is_filled(value);
        }
        if let Some((from, to)) = self.range {
            return whole_number(value).is_some_and(|number| (from..=to).contains(&number));
        }
        if let Some(expression) = &self.matches {
            return value.as_str().is_some_and(|text| {
                effort.spend(STEPS_PER_BYTE * text.len())
                    && expression.is_match(&text.to_lowercase())
            });
        }
        match value {
            Value::String(text) => is_one_of(text, &self.is),
            Value::Map(_) | Value::List(_) => false,
            other => self.is.contains(&other.to_string()),
        }
    }
}

/// Returns true if a value is neither empty nor a word for nothing. Fractions count as empty: they
/// are measures, such as a margin of error.
fn is_filled(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !is_one_of(text, NOTHING),
        Value::List(list) => list.iter().any(is_filled),
        Value::Map(map) => map.iter().any(|(_, value)| is_filled(value)),
        // An integer that does not fit is not 0.
        Value::Number(number) => number.is_integer() && number.as_i64() != Some(0),
        Value::Bool(true) => true,
    }
}

/// Returns true if a text is one of these in lower case, without surrounding spaces.
fn is_one_of(text: &str, words: &[impl AsRef<str>]) -> bool {
    let small = || text.trim().chars().flat_map(char::to_lowercase);
    words.iter().any(|word| small().eq(word.as_ref().chars()))
}

/// Parses a whole number, or that at the start of a text, as in `404 Not Found`.
fn whole_number(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Number(number) if number.is_integer() => number.as_i64(),
        Value::String(text) => {
            let text = text.trim();
            let sign = text.starts_with('-');
            let digits = text.trim_start_matches('-');
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            if digits[end..].starts_with(|c: char| !c.is_whitespace()) {
                return None;
            }
            digits[..end].parse().ok().map(|number: i64| if sign { -number } else { number })
        }
        _ => None,
    }
}
