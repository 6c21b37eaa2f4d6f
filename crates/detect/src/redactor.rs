//! Pseudonymising redactor for values that are sent out: placeholders such as `[SECRET_1]` name the
//! kind of a value and are the same for the same value throughout, so that a reader still sees
//! where a value came from.
//!
//! Beside the findings of detectors, every value under the key of a secret is replaced wherever it
//! is repeated. One scan of a text finds both what is to be replaced and attempts to sway a judge.
//!
//! All scans of a redactor have one budget of steps, and a text may not grow beyond [`GROWTH_MAX`]
//! times its size: one that would is withheld, and counted.

mod keyed;
mod marked;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Deserialize;

use self::keyed::KeyedSecrets;
use self::marked::MarkedText;
use super::pack::{self, Pack, names};
use spanscore_base::settings::SettingsError;
use spanscore_base::value::{Map, Value, json};

/// Steps of looking at all texts, and as many again of replacing in them; texts beyond it are
/// withheld.
const STEPS_MAX: usize = 1 << 30;
/// Factor by which placeholders may lengthen a text.
const GROWTH_MAX: usize = 2;
/// Bytes up to which any text may grow.
const GROWN_BYTES_MIN: usize = 1 << 10;
/// Bytes below which a string holds nothing that a detector looks for.
const BYTES_MIN: usize = 6;
/// Replacement of a string that is withheld as a whole.
pub const WITHHELD: &str = "[WITHHELD]";
/// Word of placeholders for values under keys of secrets.
const SECRET: &str = "SECRET";
/// Family of the detectors of secrets.
const CREDENTIAL: &str = "credential";

/// Parts of keys whose values are secrets, without case, `_` and `-`.
const SECRET_KEYS: [&str; 8] = [
    "password",
    "passwd",
    "secret",
    "apikey",
    "privatekey",
    "credential",
    "authorization",
    "accesskey",
];

/// Flag that a value stands under a key of secrets. Computed once for each key, however many texts
/// stand below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderKey(bool);

impl UnderKey {
    /// Stands under no key.
    pub const NONE: Self = Self(false);

    /// Tests a key.
    pub fn of(key: &str) -> Self {
        let key: String = key.chars().filter(|c| !matches!(c, '_' | '-')).collect();
        let key = key.to_lowercase();
        Self(
            key == "token"
                || key.ends_with("accesstoken")
                || key.ends_with("refreshtoken")
                || SECRET_KEYS.iter().any(|part| key.contains(part)),
        )
    }
}

/// Data that is replaced by placeholders before anything is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Redact {
    /// Keys, tokens and passwords.
    #[default]
    Secrets,
    /// Keys, tokens and passwords, and personal data.
    SecretsAndPii,
    /// Nothing.
    None,
}

/// Texts that were withheld as a whole, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithheldTexts {
    /// Withheld as the steps for redaction were used up.
    pub steps: u64,
    /// Withheld as placeholders would have made them too long.
    pub size: u64,
    /// Withheld as a detector gave up before their end.
    pub unread: u64,
}

impl WithheldTexts {
    /// Returns each reason, as counters name it, with its count.
    pub fn by_reason(self) -> [(&'static str, u64); 3] {
        [("redaction_steps", self.steps), ("size", self.size), ("unread", self.unread)]
    }

    /// Adds the counts of another redactor.
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.size += other.size;
        self.unread += other.unread;
    }
}

/// Shortcomings of a redactor, for counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedactionGaps {
    /// Values of keys for secrets that are replaced there but not looked for elsewhere, as too many
    /// others came before them.
    pub unfollowed: u64,
    /// Texts of which nothing is shown.
    pub withheld: WithheldTexts,
}

impl RedactionGaps {
    /// Adds the counts of another redactor.
    pub fn add(&mut self, other: Self) {
        self.unfollowed += other.unfollowed;
        self.withheld.add(other.withheld);
    }
}

/// Reasons for withholding a text.
enum Unshown {
    Steps,
    Size,
    Unread,
    /// It tries to sway a judge, which is reported elsewhere.
    Sways,
}

/// Redactor of values: replaces findings, and values under keys of secrets, by placeholders that
/// are the same for the same value throughout. It replaces only in texts that it has been shown
/// before.
pub struct Redactor {
    pack: Arc<Pack>,
    redact: Redact,
    withholds: bool,
    injection: bool,
    /// True once something shown has to be replaced.
    dirty: bool,
    /// Values of keys that hold secrets, replaced wherever they stand.
    keyed: KeyedSecrets,
    gaps: RedactionGaps,
    /// Steps left for looking at texts.
    look_steps: usize,
    /// Steps left for replacing in them.
    replace_steps: usize,
    known: PlaceholderNumbers,
}

impl Redactor {
    /// Starts with nothing seen.
    ///
    /// # Errors
    /// The detectors cannot be built, which a test rules out.
    pub fn new(redact: Redact) -> Result<Self, SettingsError> {
        Ok(Self {
            pack: pack::evidence()?,
            redact,
            withholds: false,
            injection: false,
            dirty: false,
            keyed: KeyedSecrets::default(),
            gaps: RedactionGaps::default(),
            look_steps: STEPS_MAX,
            replace_steps: STEPS_MAX,
            known: PlaceholderNumbers::default(),
        })
    }

    /// Sets what is replaced from now on.
    pub fn set(&mut self, redact: Redact) {
        self.redact = redact;
    }

    /// Withholds texts that try to sway a judge from now on.
    pub fn withhold_injections(&mut self) {
        self.withholds = true;
    }

    /// Returns true if a text that was shown tries to sway a judge.
    pub fn found_injection(&self) -> bool {
        self.injection
    }

    /// Returns the counts of what it could not replace or show.
    pub fn gaps(&self) -> RedactionGaps {
        self.gaps
    }

    /// Returns true if something that was shown is to be replaced.
    pub fn is_needed(&self) -> bool {
        self.dirty
    }

    /// Looks at a value that stands under a key.
    pub fn look_at(&mut self, value: &Value<'_>, key: UnderKey) {
        match value {
            Value::String(text) => self.look_at_entry(key, text),
            Value::List(list) => list.iter().for_each(|item| self.look_at(item, key)),
            Value::Map(map) => map.iter().for_each(|(key, item)| {
                self.look_at_text(key);
                self.look_at(item, UnderKey::of(key));
            }),
            _ => {}
        }
    }

    /// Looks at a text that stands under a key, and, where it is itself JSON, at the values in it.
    pub fn look_at_entry(&mut self, key: UnderKey, text: &str) {
        self.know_keyed(key, text);
        if self.redact != Redact::None
            && text.starts_with(['{', '['])
            && let Ok(nested) = json::parse(text)
        {
            self.know_nested(&nested, UnderKey::NONE);
        }
        self.look_at_text(text);
    }

    fn know_nested(&mut self, value: &Value<'_>, key: UnderKey) {
        match value {
            Value::String(text) => self.know_keyed(key, text),
            Value::List(list) => list.iter().for_each(|item| self.know_nested(item, key)),
            Value::Map(map) => {
                map.iter().for_each(|(key, item)| self.know_nested(item, UnderKey::of(key)));
            }
            _ => {}
        }
    }

    /// Remembers a text that stands under the key of a secret.
    fn know_keyed(&mut self, key: UnderKey, text: &str) {
        if !self.is_keyed_secret(key, text) {
            return;
        }
        self.dirty = true;
        if text.len() >= BYTES_MIN && !self.keyed.know(text) {
            self.gaps.unfollowed += 1;
        }
    }

    /// Looks at a text that stands under no key.
    pub fn look_at_text(&mut self, text: &str) {
        if text.len() < BYTES_MIN {
            return;
        }
        let scan = self.pack.scan(text, self.look_steps);
        let is_cut = scan.steps() > self.look_steps;
        self.look_steps = self.look_steps.saturating_sub(scan.steps());
        if scan.is_empty() && !is_cut {
            return;
        }
        self.injection |= !is_cut && self.sways(&scan);
        self.dirty |= self.redact != Redact::None
            && (is_cut
                || self.pack.gave_up(&scan, names::PII).is_some()
                || self.pack.hits(&scan, names::PII).next().is_some());
    }

    /// Replaces in a text that stands under a key.
    pub fn replace_entry(&mut self, key: UnderKey, text: &mut String) {
        if self.is_keyed_secret(key, text) {
            *text = self.known.placeholder(SECRET, text);
        } else {
            self.replace_text(text);
        }
    }

    /// Replaces in a value that stands under a key.
    pub fn replace(&mut self, value: &mut Value<'static>, key: UnderKey) {
        match value {
            Value::String(text) => {
                let mut owned = std::mem::take(text).into_owned();
                self.replace_entry(key, &mut owned);
                *text = Cow::Owned(owned);
            }
            Value::List(list) => list.iter_mut().for_each(|item| self.replace(item, key)),
            Value::Map(map) => {
                let entries = std::mem::take(map).into_entries().into_iter();
                let replaced = entries.map(|(key, mut item)| {
                    self.replace(&mut item, UnderKey::of(&key));
                    let mut key = key.into_owned();
                    self.replace_text(&mut key);
                    (Cow::Owned(key), item)
                });
                *map = Map::from_entries(replaced.collect());
            }
            _ => {}
        }
    }

    /// Replaces in a text that stands under no key.
    pub fn replace_text(&mut self, text: &mut String) {
        if text.len() < BYTES_MIN {
            return;
        }
        match self.replaced_text(text) {
            Ok(None) => return,
            Ok(Some(replaced)) => {
                *text = replaced;
                return;
            }
            Err(Unshown::Steps) => self.gaps.withheld.steps += 1,
            Err(Unshown::Size) => self.gaps.withheld.size += 1,
            Err(Unshown::Unread) => self.gaps.withheld.unread += 1,
            Err(Unshown::Sways) => {}
        }
        WITHHELD.clone_into(text);
    }

    /// Returns a text with placeholders; nothing if it stays as it is.
    fn replaced_text(&mut self, text: &str) -> Result<Option<String>, Unshown> {
        let bytes_max = text.len().saturating_mul(GROWTH_MAX).max(GROWN_BYTES_MIN);
        let mut marked = MarkedText::of(text);
        if self.redact != Redact::None {
            self.replace_keyed(&mut marked, bytes_max)?;
        }
        // Each round replaces something that was no placeholder, so there is an end.
        loop {
            let scan = self.pack.scan(marked.text(), self.replace_steps);
            let is_cut = scan.steps() > self.replace_steps;
            self.replace_steps = self.replace_steps.saturating_sub(scan.steps());
            if is_cut && (self.withholds || self.redact != Redact::None) {
                return Err(Unshown::Steps);
            }
            if self.withholds && self.sways(&scan) {
                return Err(Unshown::Sways);
            }
            if is_cut || self.redact == Redact::None {
                break;
            }
            if self.pack.gave_up(&scan, names::PII).is_some() {
                return Err(Unshown::Unread);
            }
            let found = marked.widened(self.found(marked.text(), &scan));
            if found.is_empty() {
                break;
            }
            let known = &mut self.known;
            let text = marked.text();
            let named = found.into_iter().map(|(range, word)| {
                let name = known.placeholder(&word, &text[range.clone()]);
                (range, name)
            });
            marked = marked.replaced(named, bytes_max).ok_or(Unshown::Size)?;
        }
        Ok(marked.into_changed())
    }

    /// Replaces the values of keys for secrets, in one pass over the text as it came: never within
    /// a placeholder.
    fn replace_keyed(
        &mut self,
        marked: &mut MarkedText<'_>,
        bytes_max: usize,
    ) -> Result<(), Unshown> {
        if self.keyed.texts().is_empty() {
            return Ok(());
        }
        let search = self.keyed.search().ok_or(Unshown::Unread)?;
        let mut is_there = vec![false; self.keyed.texts().len()];
        for found in search.find_iter(marked.text()) {
            is_there[found.pattern().as_usize()] = true;
        }
        if !is_there.contains(&true) {
            return Ok(());
        }
        // Numbered in the order in which they were shown.
        let known = &mut self.known;
        let names: Vec<String> = is_there
            .into_iter()
            .zip(self.keyed.texts())
            .map(
                |(is_there, secret)| {
                    if is_there { known.placeholder(SECRET, secret) } else { String::new() }
                },
            )
            .collect();
        let found = search.find_iter(marked.text());
        let found = found.map(|it| (it.range(), &names[it.pattern().as_usize()]));
        *marked = marked.replaced(found, bytes_max).ok_or(Unshown::Size)?;
        Ok(())
    }

    /// Returns true if a text gives orders to an agent, or to a judge.
    fn sways(&self, scan: &pack::Scan) -> bool {
        let rules = [names::INJECTION, names::JUDGE];
        rules.iter().any(|rule| self.pack.hits(scan, rule).next().is_some())
    }

    /// Returns the findings that are to be replaced, in order and without overlaps, with the words
    /// of their placeholders.
    fn found(&self, text: &str, scan: &pack::Scan) -> Vec<(Range<usize>, String)> {
        let findings = self.pack.hits(scan, names::PII).flat_map(|hit| {
            // Collected, as a hit does not outlive this step.
            hit.findings(text).collect::<Vec<_>>()
        });
        let is_asked = |finding: &pack::Finding| {
            self.redact == Redact::SecretsAndPii || finding.category == CREDENTIAL
        };
        let mut found: Vec<_> = findings.filter(is_asked).collect();
        found.retain(|one| !one.range.is_empty() && text.get(one.range.clone()).is_some());
        found.sort_by_key(|one| (one.range.start, usize::MAX - one.range.end));
        let mut apart: Vec<(Range<usize>, String)> = Vec::new();
        for finding in found {
            match apart.last_mut() {
                // It overlaps the one before, so they go together: no part of it stays.
                Some((last, _)) if finding.range.start < last.end => {
                    last.end = last.end.max(finding.range.end);
                }
                _ => apart.push((finding.range, word(&finding.kind))),
            }
        }
        apart
    }

    fn is_keyed_secret(&self, key: UnderKey, text: &str) -> bool {
        self.redact != Redact::None && key.0 && text.len() >= 4 && !text.starts_with('[')
    }
}

/// Placeholder numbers: for each kind the number of each value that was replaced.
#[derive(Default)]
struct PlaceholderNumbers(HashMap<String, HashMap<String, usize>>);

impl PlaceholderNumbers {
    fn placeholder(&mut self, word: &str, value: &str) -> String {
        let known = self.0.entry_ref(word).or_default();
        let next = known.len() + 1;
        let number = *known.entry_ref(value).or_insert(next);
        format!("[{word}_{number}]")
    }
}

/// Returns the kind of a finding as a word of placeholders.
fn word(kind: &str) -> String {
    let upper =
        kind.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    upper.collect()
}

#[cfg(test)]
mod tests;
