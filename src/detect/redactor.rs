//! Values without the secrets in them, for whoever they are sent to: placeholders name what stood
//! there and are the same for the same value throughout, so that a reader still sees where a value
//! came from.
//!
//! Beside what the detectors find, what stands under the key of a secret is one, wherever it is
//! repeated. One scan of a text finds what is to be replaced and what tries to sway a judge.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::pack::{self, Pack, names};
use crate::settings::SettingsError;
use crate::value::{Map, Value, json};

/// Steps that the scan of one string may take: a string that takes more is withheld.
const SCAN_STEPS_MAX: usize = 1 << 30;
/// Rounds over one string: a scan lists only the first findings of each kind.
const ROUNDS_MAX: usize = 64;
/// Values of keys for secrets that are looked for elsewhere, too.
const KEYED_MAX: usize = 64;
/// Strings of fewer bytes hold nothing that a detector looks for.
const BYTES_MIN: usize = 6;
/// What stands for a string that is withheld as a whole.
pub(crate) const WITHHELD: &str = "[WITHHELD]";
/// The family of detectors of secrets.
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

/// What is replaced by placeholders before something leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Redact {
    /// Keys, tokens and passwords.
    #[default]
    Secrets,
    /// These, and personal data.
    SecretsAndPii,
    /// Nothing.
    None,
}

/// Replaces what detectors find, and what stands under keys of secrets, by placeholders that are
/// the same for the same value throughout. What it is to replace, it has to be shown before.
pub(crate) struct Redactor {
    pack: Arc<Pack>,
    redact: Redact,
    withholds: bool,
    injection: bool,
    /// Something has to be replaced.
    dirty: bool,
    /// Values of keys that hold secrets: they go wherever they stand.
    keyed: Vec<String>,
    /// Times that such a value found no room among those.
    unfollowed: u64,
    /// The number of each value that was replaced, by its kind.
    known: HashMap<String, HashMap<String, usize>>,
}

impl Redactor {
    /// Has seen nothing.
    ///
    /// # Errors
    /// Where the detectors cannot be built, which a test rules out.
    pub(crate) fn new(redact: Redact) -> Result<Self, SettingsError> {
        Ok(Self {
            pack: pack::evidence()?,
            redact,
            withholds: false,
            injection: false,
            dirty: false,
            keyed: Vec::new(),
            unfollowed: 0,
            known: HashMap::new(),
        })
    }

    /// What is replaced from now on.
    pub(crate) fn set(&mut self, redact: Redact) {
        self.redact = redact;
    }

    /// From now on texts that try to sway a judge are withheld.
    pub(crate) fn withhold_injections(&mut self) {
        self.withholds = true;
    }

    /// Whether something that was shown tries to sway a judge.
    pub(crate) fn found_injection(&self) -> bool {
        self.injection
    }

    /// Times that a value of a key for secrets was shown that is replaced there, and not looked for
    /// elsewhere: there were too many others before it.
    pub(crate) fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// Whether something of what was shown is to be replaced.
    pub(crate) fn is_needed(&self) -> bool {
        self.dirty
    }

    /// Looks at a value that stands under a key.
    pub(crate) fn look_at(&mut self, value: &Value<'_>, key: Option<&str>) {
        match value {
            Value::String(text) => self.look_at_entry(key, text),
            Value::List(list) => list.iter().for_each(|item| self.look_at(item, key)),
            Value::Map(map) => map.iter().for_each(|(key, item)| {
                self.look_at_text(key);
                self.look_at(item, Some(key));
            }),
            _ => {}
        }
    }

    /// Looks at a text that stands under a key, and, where it is itself JSON, at what that holds.
    pub(crate) fn look_at_entry(&mut self, key: Option<&str>, text: &str) {
        self.know_keyed(key, text);
        if self.redact != Redact::None
            && text.starts_with(['{', '['])
            && let Ok(nested) = json::parse(text)
        {
            self.know_nested(&nested, None);
        }
        self.look_at_text(text);
    }

    fn know_nested(&mut self, value: &Value<'_>, key: Option<&str>) {
        match value {
            Value::String(text) => self.know_keyed(key, text),
            Value::List(list) => list.iter().for_each(|item| self.know_nested(item, key)),
            Value::Map(map) => {
                map.iter().for_each(|(key, item)| self.know_nested(item, Some(key)));
            }
            _ => {}
        }
    }

    /// Remembers a text that stands under the key of a secret.
    fn know_keyed(&mut self, key: Option<&str>, text: &str) {
        if !self.is_keyed_secret(key, text) {
            return;
        }
        self.dirty = true;
        // The same one comes with each call: it must not take the place of others.
        if text.len() < BYTES_MIN || self.keyed.iter().any(|known| known == text) {
            return;
        }
        match self.keyed.len() < KEYED_MAX {
            true => self.keyed.push(text.to_owned()),
            false => self.unfollowed += 1,
        }
    }

    /// Looks at a text that stands under no key.
    pub(crate) fn look_at_text(&mut self, text: &str) {
        if text.len() < BYTES_MIN {
            return;
        }
        let scan = self.pack.scan(text, SCAN_STEPS_MAX);
        if scan.is_empty() && scan.steps() <= SCAN_STEPS_MAX {
            return;
        }
        self.injection |= self.sways(&scan);
        self.dirty |= self.redact != Redact::None
            && (scan.steps() > SCAN_STEPS_MAX
                || self.pack.gave_up(&scan, names::PII).is_some()
                || self.pack.hits(&scan, names::PII).next().is_some());
    }

    /// Replaces in a text that stands under a key.
    pub(crate) fn replace_entry(&mut self, key: Option<&str>, text: &mut String) {
        if self.is_keyed_secret(key, text) {
            *text = self.placeholder("SECRET", text);
        } else {
            self.replace_text(text);
        }
    }

    /// Replaces in a value that stands under a key.
    pub(crate) fn replace(&mut self, value: &mut Value<'static>, key: Option<&str>) {
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
                    self.replace(&mut item, Some(&key));
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
    pub(crate) fn replace_text(&mut self, text: &mut String) {
        if text.len() < BYTES_MIN {
            return;
        }
        if self.redact != Redact::None {
            // Taken out, not copied for each text: they may be as long as a trace.
            let keyed = std::mem::take(&mut self.keyed);
            for secret in &keyed {
                if text.contains(secret.as_str()) {
                    *text = text.replace(secret, &self.placeholder("SECRET", secret));
                }
            }
            self.keyed = keyed;
        }
        for _ in 0..ROUNDS_MAX {
            let scan = self.pack.scan(text, SCAN_STEPS_MAX);
            let is_swaying = self.sways(&scan);
            let is_open =
                scan.steps() > SCAN_STEPS_MAX || self.pack.gave_up(&scan, names::PII).is_some();
            if (self.withholds && is_swaying) || (is_open && self.redact != Redact::None) {
                WITHHELD.clone_into(text);
                return;
            }
            let Some(replaced) = self.replaced(text, &scan) else { return };
            *text = replaced;
        }
        WITHHELD.clone_into(text);
    }

    /// Whether a text gives orders to an agent, or to a judge.
    fn sways(&self, scan: &pack::Scan) -> bool {
        let rules = [names::INJECTION, names::JUDGE];
        rules.iter().any(|rule| self.pack.hits(scan, rule).next().is_some())
    }

    /// The text with placeholders for the findings of a scan; `None` where there are none.
    fn replaced(&mut self, text: &str, scan: &pack::Scan) -> Option<String> {
        if self.redact == Redact::None {
            return None;
        }
        let pack = Arc::clone(&self.pack);
        let findings = pack.hits(scan, names::PII).flat_map(|hit| {
            // A hit does not outlive this step.
            hit.findings(text).collect::<Vec<_>>()
        });
        let is_asked = |finding: &pack::Finding| {
            self.redact == Redact::SecretsAndPii || finding.category == CREDENTIAL
        };
        let mut found: Vec<_> = findings.filter(is_asked).collect();
        found.retain(|one| !one.range.is_empty() && text.get(one.range.clone()).is_some());
        if found.is_empty() {
            return None;
        }
        found.sort_by_key(|one| (one.range.start, usize::MAX - one.range.end));
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for finding in found {
            let range = finding.range;
            if range.start < from {
                // Overlaps with one before it: what sticks out goes, too.
                from = from.max(range.end);
                continue;
            }
            out.push_str(&text[from..range.start]);
            out.push_str(&self.placeholder(&word(&finding.kind), &text[range.clone()]));
            from = range.end;
        }
        out.push_str(&text[from..]);
        (out != text).then_some(out)
    }

    fn is_keyed_secret(&self, key: Option<&str>, text: &str) -> bool {
        self.redact != Redact::None
            && text.len() >= 4
            && !text.starts_with('[')
            && key.is_some_and(|key| {
                let key: String = key.chars().filter(|c| !matches!(c, '_' | '-')).collect();
                let key = key.to_lowercase();
                key == "token"
                    || key.ends_with("accesstoken")
                    || key.ends_with("refreshtoken")
                    || SECRET_KEYS.iter().any(|part| key.contains(part))
            })
    }

    fn placeholder(&mut self, word: &str, value: &str) -> String {
        let known = self.known.entry(word.to_owned()).or_default();
        let next = known.len() + 1;
        let number = *known.entry(value.to_owned()).or_insert(next);
        format!("[{word}_{number}]")
    }
}

/// The kind of a finding as a word of placeholders.
fn word(kind: &str) -> String {
    let upper =
        kind.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    upper.collect()
}
