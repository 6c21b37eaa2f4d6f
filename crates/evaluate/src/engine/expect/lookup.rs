//! Lookup of a trajectory's test case: by the text of a key, by the user's words, or by the first
//! of several identifiers.
//!
//! Words are compared in Unicode's composed form (NFC), trimmed, with white space collapsed. They
//! are content, so an explanation only has their length and a hash.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use icu_normalizer::ComposingNormalizerBorrowed;
use sha2::{Digest, Sha256};

use super::Expectation;
use crate::engine::select::{ReadKeys, Reads, RootReads, Scope, When, json_within_limits};
use crate::shared::report;
use spanscore_base::model::{Facts, Trajectory};
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::Value;

/// Names of the attributes or metadata keys that `match: auto` reads as the case's name, in order
/// of precedence.
pub const CASE_NAMES: [&str; 5] = ["eval.case.id", "eval_case_id", "case.id", "case_id", "case"];
/// Endings of the prefixes of single metadata entries in instrumentations.
const METADATA_PREFIXES: [&str; 2] = ["metadata.", "association.properties."];
/// Longest name quoted in an explanation, bytes.
const SHOWN_BYTES_MAX: usize = 64;
/// Limit on the attributes named in an explanation.
const SHOWN_ATTRIBUTES_MAX: usize = 8;

/// Part of a trace that identifies its case.
pub enum CaseKey {
    /// Value of an expression: a name, or the user's words if it only reads those.
    Expression(When),
    /// The case id, else the user's words, else the session id.
    Auto,
}

impl CaseKey {
    /// Returns the facts that it needs.
    pub(super) fn facts(&self) -> Facts {
        match self {
            Self::Expression(key) => key.facts(),
            Self::Auto => Facts { root_attributes: true, user_input: true, ..Facts::default() },
        }
    }

    /// Returns the names that it reads.
    pub(super) fn reads(&self) -> Reads {
        match self {
            Self::Expression(key) => key.reads(),
            Self::Auto => Reads { user_input: true, ..Reads::default() },
        }
    }

    /// Returns the parts of the root span that it reads.
    pub(super) fn root_reads(&self) -> RootReads {
        match self {
            Self::Expression(key) => key.root_reads().clone(),
            Self::Auto => RootReads {
                attributes: ReadKeys::OfCases,
                session_id: true,
                ..RootReads::default()
            },
        }
    }

    /// Returns true if cases are found only by the user's words.
    pub fn is_words(&self) -> bool {
        matches!(self, Self::Expression(key) if key.is_user_input())
    }
}

/// Expectations of a dataset, by their identifiers.
#[derive(Default)]
pub struct CaseRows {
    pub(super) by_name: HashMap<String, Arc<Expectation>>,
    /// By normalized [`words`]; `None` if several cases share them.
    by_words: HashMap<String, Option<Arc<Expectation>>>,
    /// Turns of multi-turn cases, by their words; `None` if several turns share them.
    pub(super) by_turn: HashMap<String, Option<TurnRow>>,
    /// Names of cases without expectations, by each of their names.
    empty_names: HashMap<String, Arc<str>>,
    /// Names of cases without expectations, by their words.
    empty_words: HashMap<String, Arc<str>>,
}

/// Turn of a multi-turn case.
pub(super) struct TurnRow {
    /// Name of the case.
    pub(super) case: String,
    /// `None` if the case has no expectation for the turn.
    pub(super) expectation: Option<Arc<Expectation>>,
}

impl TurnRow {
    fn expected(&self, words: &str) -> Result<&Arc<Expectation>, Missed> {
        let silent = || Missed::Silent { words: shown_by_hash(words) };
        self.expectation.as_ref().ok_or_else(silent)
    }
}

impl CaseRows {
    /// Adds a case under a name, unless that is taken.
    pub fn add(&mut self, name: String, expectation: &Arc<Expectation>) {
        self.by_name.entry(name).or_insert_with(|| Arc::clone(expectation));
    }

    /// Adds a case under the user's words; false if another case has them too.
    pub fn add_words(&mut self, text: &str, expectation: &Arc<Expectation>) -> bool {
        add_unless_taken(&mut self.by_words, text, Arc::clone(expectation))
    }

    /// Adds a turn of a multi-turn case under the user's words, optionally with an expectation.
    pub fn add_turn(&mut self, text: &str, case: &str, expectation: Option<Arc<Expectation>>) {
        add_unless_taken(&mut self.by_turn, text, TurnRow { case: case.to_owned(), expectation });
    }

    /// Adds a case without expectations, with its user words, to distinguish its traces from those
    /// without a case.
    pub fn add_empty<'t>(&mut self, names: &[String], said: impl Iterator<Item = &'t String>) {
        let Some(first) = names.first() else { return };
        let first: Arc<str> = first.as_str().into();
        for name in names {
            self.empty_names.entry(name.clone()).or_insert_with(|| Arc::clone(&first));
        }
        for text in said.map(|text| words(text)).filter(|text| !text.is_empty()) {
            self.empty_words.entry(text).or_insert_with(|| Arc::clone(&first));
        }
    }

    fn missed_name(&self, name: &str, is_content: bool) -> Missed {
        let empty = self.empty_names.get(name).map(|case| Missed::Empty { case: case.to_string() });
        empty.unwrap_or_else(|| Missed::unknown(name, is_content))
    }

    fn missed_words(&self, words: &str) -> Missed {
        let empty = self.empty_words.get(words);
        let empty = empty.map(|case| Missed::Empty { case: case.to_string() });
        empty.unwrap_or_else(|| Missed::Words { words: shown_by_hash(words) })
    }

    /// Finds the case of a trajectory.
    pub(super) fn find(
        &self,
        key: &CaseKey,
        trajectory: &Trajectory<'_>,
        scope: &Scope<'_>,
    ) -> Result<&Arc<Expectation>, Missed> {
        let key = match key {
            CaseKey::Auto => return self.find_by_any(trajectory, scope),
            CaseKey::Expression(key) => key,
        };
        let Some(text) = key.text(scope) else { return Err(Missed::Nameless) };
        if key.is_user_input() {
            return self.find_by_words(&text, trajectory);
        }
        let is_content = key.reads().user_input || key.reads().final_output;
        self.by_name.get(&text).ok_or_else(|| self.missed_name(&text, is_content))
    }

    /// A trace of a conversation has one turn, so the turn with its words precedes the case that
    /// starts with them. Without a session id this holds only for turns without expectations, since
    /// the trace may be the whole conversation. A session always is.
    fn find_by_words(
        &self,
        text: &str,
        trajectory: &Trajectory<'_>,
    ) -> Result<&Arc<Expectation>, Missed> {
        let words = words(text);
        if words.is_empty() {
            return Err(Missed::Wordless);
        }
        let ambiguous = || Missed::Ambiguous { words: shown_by_hash(&words) };
        let turn = self.by_turn.get(&words).filter(|_| trajectory.turn_starts.is_empty());
        let turn = turn.map(Option::as_ref);
        let Some(case) = self.by_words.get(&words) else {
            let turn = turn.ok_or_else(|| self.missed_words(&words))?;
            return turn.ok_or_else(ambiguous)?.expected(&words);
        };
        let case = case.as_ref().ok_or_else(ambiguous)?;
        let is_of_conversation = trajectory.session_id.is_some();
        match turn {
            Some(Some(turn)) if case.info.case.as_deref() == Some(&*turn.case) => {
                let goes_first = is_of_conversation || turn.expectation.is_none();
                if goes_first { turn.expected(&words) } else { Ok(case) }
            }
            Some(_) if is_of_conversation => Err(ambiguous()),
            _ => Ok(case),
        }
    }

    /// Tries the case id, the user's words, the session id. A case id missing from the dataset is a
    /// mistake that no other match may hide.
    fn find_by_any(
        &self,
        trajectory: &Trajectory<'_>,
        scope: &Scope<'_>,
    ) -> Result<&Arc<Expectation>, Missed> {
        if let Some(name) = case_name(trajectory, scope) {
            let by_name = self.by_name.get(&*name).map(Ok);
            // A case with expectations for single turns only has no name of its own.
            let turn = || self.turn_of(&name, &words(scope.user_input()));
            let missed = || Err(self.missed_name(&name, false));
            return by_name.or_else(turn).unwrap_or_else(missed);
        }
        let by_words = self.find_by_words(scope.user_input(), trajectory);
        by_words.or_else(|missed| {
            let session = trajectory.session_id.as_deref().unwrap_or_default();
            let by_session = self.by_name.get(session);
            match missed {
                Missed::Silent { .. } | Missed::Empty { .. } => Err(missed),
                Missed::Wordless => by_session.ok_or(Missed::Nameless),
                other => by_session.ok_or(other),
            }
        })
    }
}

impl CaseRows {
    /// Returns the turn of a named case by its words.
    fn turn_of(&self, case: &str, words: &str) -> Option<Result<&Arc<Expectation>, Missed>> {
        let turn = self.by_turn.get(words)?.as_ref().filter(|turn| turn.case == case)?;
        Some(turn.expected(words))
    }
}

/// Adds a row under words; on a conflict stores `None` and returns false.
fn add_unless_taken<R>(known: &mut HashMap<String, Option<R>>, text: &str, row: R) -> bool {
    match known.entry(words(text)) {
        Entry::Occupied(mut taken) => {
            taken.insert(None);
            false
        }
        Entry::Vacant(free) => {
            free.insert(Some(row));
            true
        }
    }
}

/// Returns the case id of a root span under one of [`CASE_NAMES`].
fn case_name<'t>(trajectory: &'t Trajectory<'_>, scope: &Scope<'_>) -> Option<Cow<'t, str>> {
    let attributes = &trajectory.attributes;
    let named = CASE_NAMES.iter().find_map(|name| {
        let is_it = |key: &str| {
            let prefix = key.strip_suffix(name);
            prefix.is_some_and(|it| {
                it.is_empty() || METADATA_PREFIXES.iter().any(|end| it.ends_with(end))
            })
        };
        attributes.iter().find(|(key, _)| is_it(key)).and_then(|(_, value)| match value {
            AnyValue::String(text) => Some(Cow::Borrowed(*text)),
            AnyValue::Int(number) => Some(Cow::Owned(number.to_string())),
            _ => None,
        })
    });
    named.filter(|name| !name.is_empty()).or_else(|| {
        metadata(trajectory).find_map(|text| {
            let entries = scope.charge_text(text).then(|| json_within_limits(text)).flatten()?;
            CASE_NAMES.iter().find_map(|name| match entries.get(name)? {
                Value::String(name) if !name.is_empty() => Some(Cow::Owned(name.to_string())),
                Value::Number(number) => Some(Cow::Owned(number.to_string())),
                _ => None,
            })
        })
    })
}

/// Returns the texts of attributes with JSON metadata.
fn metadata<'t>(trajectory: &'t Trajectory<'_>) -> impl Iterator<Item = &'t str> {
    trajectory.attributes.iter().filter_map(|(key, value)| match value {
        AnyValue::String(text) if is_metadata(key) && text.starts_with('{') => Some(*text),
        _ => None,
    })
}

/// Returns true if an attribute with this key may name a case.
pub fn may_name_case(key: &str) -> bool {
    is_metadata(key) || CASE_NAMES.iter().any(|name| key.ends_with(name))
}

fn is_metadata(key: &str) -> bool {
    key == "metadata" || key.ends_with(".metadata")
}

/// Normalizes words for comparison.
pub fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let composed = ComposingNormalizerBorrowed::new_nfc().normalize(text);
    for word in composed.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Returns a short name for a case identified by its words, without quoting them.
pub fn short_id(text: &str) -> String {
    format!("case-{}", start_of_hash(&words(text)))
}

fn start_of_hash(text: &str) -> String {
    Sha256::digest(text).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Describes a text by its length and the start of its SHA-256.
fn shown_by_hash(text: &str) -> String {
    let start = start_of_hash(text);
    format!("{} characters, SHA-256 {start}", text.chars().count())
}

/// Reason why a trajectory has no case, without its content.
#[derive(Debug, PartialEq)]
pub(super) enum Missed {
    /// It has no identifier.
    Nameless,
    /// The user's words are not recorded.
    Wordless,
    /// The dataset has no such case.
    Unknown { name: String },
    /// No case has these words.
    Words { words: String },
    /// Several cases have these words.
    Ambiguous { words: String },
    /// The case has no expectation for the turn with these words.
    Silent { words: String },
    /// The case of this name has no expectations.
    Empty { case: String },
}

impl Missed {
    fn unknown(name: &str, is_content: bool) -> Self {
        let is_id = name.len() <= SHOWN_BYTES_MAX && !name.contains(char::is_whitespace);
        let name = if is_id && !is_content {
            format!("`{name}`")
        } else {
            format!("of this name ({})", shown_by_hash(name))
        };
        Self::Unknown { name }
    }

    /// Explains it to a person, with the attributes that may name a case.
    pub(super) fn explain(&self, trajectory: &Trajectory<'_>) -> String {
        match self {
            Self::Nameless => format!("the trace names no case{}", at_hand(trajectory)),
            Self::Wordless => "the user's words are not recorded".to_owned(),
            Self::Unknown { name } => format!("the dataset has no case {name}"),
            Self::Words { words } => {
                format!("no case has the user's words ({words}){}", at_hand(trajectory))
            }
            Self::Ambiguous { words } => format!("several cases have the user's words ({words})"),
            Self::Silent { words } => {
                format!("the case expects nothing of the turn with the user's words ({words})")
            }
            Self::Empty { case } => {
                format!("the dataset's case `{case}` holds nothing that this evaluator compares")
            }
        }
    }
}

/// Lists the names of the root span's attributes and its metadata keys.
fn at_hand(trajectory: &Trajectory<'_>) -> String {
    let mut names: Vec<String> = Vec::new();
    for (key, value) in &trajectory.attributes {
        let keys = match value {
            AnyValue::String(text) if is_metadata(key) => keys_of(text),
            _ => String::new(),
        };
        names.push(format!("`{key}`{keys}"));
    }
    if names.is_empty() {
        return String::new();
    }
    names.sort_unstable();
    format!("; its root span has {}", report::some_names(names, SHOWN_ATTRIBUTES_MAX))
}

fn keys_of(text: &str) -> String {
    let Some(Value::Map(entries)) = json_within_limits(text) else { return String::new() };
    let mut keys: Vec<&str> = entries.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.truncate(SHOWN_ATTRIBUTES_MAX);
    if keys.is_empty() { String::new() } else { format!(" (JSON with `{}`)", keys.join("`, `")) }
}
