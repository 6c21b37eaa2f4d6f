//! Places of values on a set of spans, with statistics.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use hashbrown::HashSet;

use super::samples::{SampleSpan, ValueForm};
use super::words::{ABOUT, ARGUMENTS, INPUTS, RESULTS, TOOLS, any_in, is_in, words};
use spanscore_base::value::{Map, Value};
use spanscore_base::visible;

/// Limit on the places of one set of spans.
const PLACES_MAX: usize = 2_000;
/// Limit on the shown values of each place.
const EXAMPLES_MAX: usize = 3;
/// Longest shown value, characters.
const EXAMPLE_CHARS_MAX: usize = 40;
/// Longest possible name, bytes.
const NAME_BYTES_MAX: usize = 128;

/// Place of a value on a span.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum ValuePlace {
    /// Attribute with that key.
    Attribute(String),
    /// All attributes with that key prefix.
    Prefix(String),
    /// Attribute of the events with that name.
    Event(String, String),
    /// Entry of an attribute's object.
    Entry(String, String),
    /// Name of the span.
    SpanName,
}

impl ValuePlace {
    /// Returns the words of its key.
    fn words(&self) -> Vec<String> {
        match self {
            Self::Attribute(key) | Self::Prefix(key) => words(key),
            Self::Event(name, key) | Self::Entry(name, key) => words(&format!("{name} {key}")),
            Self::SpanName => Vec::new(),
        }
    }
}

/// Shape of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ValueShape {
    Object,
    List,
    Number,
    Bool,
    /// Text that may be a name.
    Word,
    Text,
}

/// Statistics of the values at one place of some spans.
#[derive(Debug)]
pub(super) struct SeenPlace {
    pub(super) place: ValuePlace,
    pub(super) words: Vec<String>,
    /// Number of values, at most one per span.
    pub(super) count: usize,
    shapes: [usize; 6],
    forms: [usize; 4],
    /// Number of values that are a JSON Schema.
    schemas: usize,
    /// Entries with the content of envelopes, and their counts.
    envelopes: BTreeMap<String, usize>,
    distinct: HashSet<u64>,
    /// Sample of the original texts.
    pub(super) texts: Vec<String>,
}

/// Limit on the texts in a place's sample.
const TEXTS_MAX: usize = 64;

impl SeenPlace {
    fn new(place: ValuePlace) -> Self {
        let words = place.words();
        Self {
            place,
            words,
            count: 0,
            shapes: [0; 6],
            forms: [0; 4],
            schemas: 0,
            envelopes: BTreeMap::new(),
            distinct: HashSet::new(),
            texts: Vec::new(),
        }
    }

    fn add(&mut self, value: &Value<'_>, form: ValueForm) {
        let Some(shape) = shape(value) else { return };
        self.count += 1;
        self.shapes[shape as usize] += 1;
        self.forms[form as usize] += 1;
        if let Some(map) = value.as_map() {
            self.schemas += usize::from(is_schema(map));
            if let Some(entry) = envelope(map) {
                *self.envelopes.entry(entry.to_owned()).or_default() += 1;
            }
        }
        let text = match value {
            Value::String(text) => text.to_string(),
            value => value.to_string(),
        };
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        if self.distinct.insert(hasher.hash_one(&text)) && self.texts.len() < TEXTS_MAX {
            self.texts.push(text);
        }
    }

    /// Returns the share of its values with a shape, 0 to 1.
    pub(super) fn share(&self, shape: ValueShape) -> f64 {
        self.shapes[shape as usize] as f64 / self.count.max(1) as f64
    }

    /// Returns true if its values are JSON Schemas of arguments.
    pub(super) fn holds_schemas(&self) -> bool {
        self.schemas * 2 > self.count
    }

    /// Returns the entry with the values' content, if most are envelopes.
    pub(super) fn envelope(&self) -> Option<&str> {
        let most = self.envelopes.iter().rev().max_by_key(|(_, count)| **count);
        most.filter(|(_, count)| **count > 1 && **count * 10 >= self.count * 8)
            .map(|(entry, _)| entry.as_str())
    }

    pub(super) fn has_form(&self, form: ValueForm) -> bool {
        self.forms[form as usize] > 0
    }

    /// Returns the number of distinct values.
    pub(super) fn distinct(&self) -> usize {
        self.distinct.len()
    }

    /// Returns the last word of its key.
    pub(super) fn last_word(&self) -> &str {
        self.words.last().map_or("", String::as_str)
    }

    /// Returns some of its values, truncated and made visible.
    pub(super) fn examples(&self) -> String {
        let shown = self.texts.iter().take(EXAMPLES_MAX).map(|text| {
            let cut = text.char_indices().nth(EXAMPLE_CHARS_MAX);
            let (text, more) = cut.map_or((&text[..], ""), |(at, _)| (&text[..at], "..."));
            format!("{}{more}", visible::line(text))
        });
        shown.collect::<Vec<_>>().join(" | ")
    }
}

fn is_schema(map: &Map<'_>) -> bool {
    let is_text = |key| map.get(key).is_some_and(|value| value.as_str().is_some());
    let has_properties = map.get("properties").is_some_and(|it| it.as_map().is_some());
    map.get("$schema").is_some()
        || (has_properties && (is_text("type") || is_text("title")))
        || (is_text("type") && map.get("parameters").is_some_and(|it| it.as_map().is_some()))
}

/// Returns the entry with the content, if the others only describe it.
fn envelope<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    let is_content = |key: &str| {
        is_in(key, RESULTS) || is_in(key, INPUTS) || is_in(key, ARGUMENTS) || key == "value"
    };
    let is_about = |key: &str| {
        ["id", "name", "type", "status", "options", "call_id", "tool_call_id", "tool_name"]
            .contains(&key)
    };
    let mut contents = map.iter().filter(|(key, _)| is_content(key));
    let (entry, content) = contents.next()?;
    // An argument may have such a name too: a scalar under it is no envelope.
    if map.len() == 1 && !is_in(entry, RESULTS) && content.as_map().is_none() {
        return None;
    }
    let others = || map.iter().filter(|(key, _)| *key != entry);
    (contents.next().is_none() && others().all(|(key, _)| is_about(key)) && is_path(entry))
        .then_some(entry)
}

fn shape(value: &Value<'_>) -> Option<ValueShape> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) if text.is_empty() => return None,
        Value::Map(_) => ValueShape::Object,
        Value::List(_) => ValueShape::List,
        Value::Number(_) => ValueShape::Number,
        Value::Bool(_) => ValueShape::Bool,
        Value::String(text) if is_word(text) => ValueShape::Word,
        Value::String(_) => ValueShape::Text,
    })
}

fn is_word(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Returns all places with values of the given spans, in order.
pub(super) fn places(spans: &[&SampleSpan]) -> Vec<SeenPlace> {
    let mut seen = SeenPlaces::default();
    for span in spans {
        let mut behind: BTreeMap<&str, Vec<(Cow<'static, str>, Value<'static>)>> = BTreeMap::new();
        for value in &span.values {
            let key = &value.key;
            let form = value.form;
            if !value.event.is_empty() {
                let place = ValuePlace::Event(value.event.clone(), key.clone());
                seen.add(place, &value.value, form);
                continue;
            }
            seen.add(ValuePlace::Attribute(key.clone()), &value.value, form);
            if let Some((prefix, rest)) = prefix_of_arguments(key) {
                let entry = (Cow::Owned(rest.to_owned()), value.value.clone());
                behind.entry(prefix).or_default().push(entry);
            }
            for (entry, inner) in call_entries(&value.value) {
                let place = ValuePlace::Entry(key.clone(), entry.to_owned());
                seen.add(place, inner, ValueForm::Native);
            }
        }
        for (prefix, entries) in behind {
            let place = ValuePlace::Prefix(prefix.to_owned());
            seen.add(place, &Value::Map(Map::from_entries(entries)), ValueForm::Native);
        }
        let name = Value::from(span.name.clone());
        seen.add(ValuePlace::SpanName, &name, ValueForm::Plain);
    }
    seen.0.into_values().filter(|seen| seen.count > 0).collect()
}

#[derive(Default)]
struct SeenPlaces(BTreeMap<ValuePlace, SeenPlace>);

impl SeenPlaces {
    fn add(&mut self, place: ValuePlace, value: &Value<'_>, form: ValueForm) {
        if self.0.len() >= PLACES_MAX && !self.0.contains_key(&place) {
            return;
        }
        let new = || SeenPlace::new(place.clone());
        self.0.entry(place.clone()).or_insert_with(new).add(value, form);
    }
}

/// Splits the key of an attribute with one argument into the common prefix and the argument's name:
/// `acme.tool.arguments.` and `city`.
fn prefix_of_arguments(key: &str) -> Option<(&str, &str)> {
    let ends = key.match_indices('.').map(|(at, _)| at);
    let end = ends.into_iter().find(|end| {
        let segment = key[..*end].rsplit('.').next().unwrap_or_default();
        words(segment).last().is_some_and(|word| is_in(word, ARGUMENTS))
    })?;
    let (prefix, rest) = key.split_at(end + 1);
    let is_about = words(rest).iter().any(|word| is_in(word, &["value", "json", "mime", "text"]));
    (!rest.is_empty() && !is_about).then_some((prefix, rest))
}

/// Returns the entries of an object that describes a call: it names a tool, and its input or
/// output.
fn call_entries<'v>(value: &'v Value<'_>) -> impl Iterator<Item = (&'v str, &'v Value<'v>)> {
    let has = |map: &Map<'_>, fits: &dyn Fn(&[String]) -> bool| {
        map.iter().any(|(key, _)| fits(&words(key)))
    };
    let names = |words: &[String]| match words {
        [one] => is_in(one, TOOLS),
        [.., noun, last] => is_in(noun, TOOLS) && last == "name",
        [] => false,
    };
    let ends_in =
        |words: &[String], list: &[&str]| words.last().is_some_and(|last| is_in(last, list));
    let given = |words: &[String]| ends_in(words, ARGUMENTS);
    let content = |words: &[String]| ends_in(words, INPUTS) || ends_in(words, RESULTS);
    let is_name = |words: &[String]| matches!(words, [one] if one == "name");
    let map = value.as_map().filter(|map| {
        (has(map, &names) && (has(map, &given) || has(map, &content)))
            || (has(map, &is_name) && has(map, &given))
    });
    map.into_iter().flat_map(Map::iter).filter(|(key, _)| is_path(key))
}

/// Returns true if a key is allowed in a decoder's path.
fn is_path(key: &str) -> bool {
    !key.is_empty() && key.len() <= 64 && key.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns true if a key's words describe a value instead of naming it.
pub(super) fn is_about(words: &[String]) -> bool {
    any_in(words, ABOUT)
}
