//! First walk over what is shown together: secrets are learnt by their keys, and each text is
//! scanned once.
//!
//! In goes a value, out come the numbers of those of its texts in which something is to be
//! replaced. The second walk reads no other text again, but for secrets that were learnt elsewhere.

use std::collections::VecDeque;

use super::keys::{self, UnderKey};
use super::structure::{MapFacts, classes_of_items};
use super::{
    BYTES_MIN, DEPTH_MAX, Placeholders, Redact, Redactor, TEXT_BYTES_MIN, assigned, embedded,
};
use crate::pack::{self, Scan};
use spanscore_base::value::Value;

/// Most scans of a value that are remembered; further texts are scanned again.
const SCANS_MAX: usize = 256;

/// Mark of a text in which something is to be replaced: its scan, if that came to the end.
type TextMark = Option<Scan>;

/// Texts of a value in which something is to be replaced.
#[derive(Default)]
pub(super) struct TextMarks {
    /// Each by its number in a walk.
    found: VecDeque<(u32, TextMark)>,
    /// Number of the next text of the walk.
    next: u32,
    /// True if a part of the value is too deep to be shown.
    is_deep: bool,
}

impl TextMarks {
    fn add(&mut self, mark: Option<TextMark>) {
        let has_room = self.found.len() < SCANS_MAX;
        self.found.extend(mark.map(|scan| (self.next, scan.filter(|_| has_room))));
        self.next += 1;
    }

    fn is_empty(&self) -> bool {
        self.found.is_empty() && !self.is_deep
    }

    /// Goes on to the next text of a second walk.
    fn take_next(&mut self) -> Option<TextMark> {
        let number = self.next;
        self.next += 1;
        self.found.pop_front_if(|(found, _)| *found == number).map(|(_, mark)| mark)
    }
}

impl<N: Placeholders> Redactor<N> {
    /// Returns values that are shown together with placeholders; `None` where all of them may be
    /// shown as they are.
    pub fn redacted(&mut self, values: &[&Value<'_>]) -> Option<Vec<Value<'static>>> {
        let look = |value: &&Value<'_>| {
            let mut marks = TextMarks::default();
            self.walk(value, UnderKey::NONE, DEPTH_MAX, Some(&mut marks));
            marks
        };
        let marks: Vec<TextMarks> = values.iter().map(look).collect();
        if marks.iter().all(TextMarks::is_empty) && self.keyed.texts().is_empty() {
            return None;
        }
        let replaced = |(value, marks): (&&Value<'_>, TextMarks)| {
            let mut shown = (*value).clone().into_owned();
            self.marks = Some(TextMarks { next: 0, ..marks });
            self.replace(&mut shown, UnderKey::NONE);
            shown
        };
        let shown = values.iter().zip(marks).map(replaced).collect();
        self.marks = None;
        Some(shown)
    }

    /// Looks at a value that stands under a key, and learns the secrets in it.
    pub fn look_at(&mut self, value: &Value<'_>, key: UnderKey) {
        self.walk(value, key, DEPTH_MAX, Some(&mut TextMarks::default()));
    }

    /// Looks at a text that stands under a key, and learns the secrets in it.
    pub fn look_at_entry(&mut self, key: UnderKey, text: &str) {
        self.learn_text(text, key, DEPTH_MAX);
        self.scan_text(text);
    }

    /// Looks at a text that stands under no key.
    pub fn look_at_text(&mut self, text: &str) {
        self.look_at_entry(UnderKey::NONE, text);
    }

    /// Learns the values of keys in a value that stands under a key.
    pub fn learn(&mut self, value: &Value<'_>, key: UnderKey) {
        self.walk(value, key, DEPTH_MAX, None);
    }

    /// Learns the secrets in a value, and scans its texts if they are to be marked; true if it has
    /// secrets.
    fn walk(
        &mut self,
        value: &Value<'_>,
        key: UnderKey,
        depth: usize,
        mut marks: Option<&mut TextMarks>,
    ) -> bool {
        let Some(below) = depth.checked_sub(1) else {
            self.dirty |= self.redact != Redact::None;
            marks.into_iter().for_each(|marks| marks.is_deep = true);
            return true;
        };
        match value {
            Value::String(text) => {
                let is_learnt = self.learn_text(text, key, depth);
                if let Some(marks) = marks {
                    marks.add(self.scan_text(text).or(is_learnt.then_some(None)));
                }
                is_learnt
            }
            Value::Number(number) => {
                let number = number.to_string();
                let is_secret = self.redact != Redact::None && key.holds_number(&number);
                self.dirty |= is_secret;
                if let Some(marks) = marks {
                    let is_read = self.redact == Redact::SecretsAndPii;
                    let found = if is_read { self.scan_text(&number) } else { None };
                    marks.add(found.or(is_secret.then_some(None)));
                }
                is_secret
            }
            Value::List(list) => {
                let items = list.iter().zip(classes_of_items(list, key));
                items.fold(false, |any, (item, key)| {
                    self.walk(item, key, below, marks.as_deref_mut()) | any
                })
            }
            Value::Map(map) => {
                let facts = MapFacts::of(map, key);
                map.iter().fold(false, |any, (key, item)| {
                    let is_learnt = self.walk(item, facts.class(key), below, marks.as_deref_mut());
                    if let Some(marks) = &mut marks {
                        let may_hold = keys::may_stand_in(key).then_some(None);
                        marks.add(self.scan_text(key).or(may_hold));
                    }
                    is_learnt | any
                })
            }
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Learns the secrets in a text that stands under a key; true if it has some.
    fn learn_text(&mut self, text: &str, key: UnderKey, depth: usize) -> bool {
        if self.redact == Redact::None {
            return false;
        }
        if key.holds(text) {
            self.know(text);
            return true;
        }
        if !keys::may_stand_in(text) {
            return false;
        }
        let mut is_learnt = false;
        for (_, value) in embedded::json_parts(text) {
            is_learnt |= self.walk(&value, UnderKey::NONE, depth.saturating_sub(1), None);
        }
        for secret in assigned::secrets(text) {
            self.know(&text[secret]);
            is_learnt = true;
        }
        is_learnt
    }

    /// Remembers a secret, and what follows the scheme in it, to replace them wherever they stand.
    fn know(&mut self, text: &str) {
        self.dirty = true;
        let bare = keys::scheme(text).map(|scheme| text[scheme..].trim());
        for secret in [text].into_iter().chain(bare) {
            if secret.len() >= BYTES_MIN && !self.keyed.know(secret) {
                self.gaps.unfollowed += 1;
            }
        }
    }

    /// Scans a text; it is marked if something in it is to be replaced, or it could not be read.
    fn scan_text(&mut self, text: &str) -> Option<TextMark> {
        if text.len() < BYTES_MIN {
            return None;
        }
        let bytes = self.look_bytes.checked_sub(text.len().max(TEXT_BYTES_MIN));
        self.look_bytes = bytes.unwrap_or_default();
        let steps = if bytes.is_some() { self.look_steps } else { 0 };
        let scan = self.pack.scan(text, steps);
        let is_cut = scan.steps() > steps;
        self.look_steps = self.look_steps.saturating_sub(scan.steps());
        if scan.is_empty() && !is_cut {
            return None;
        }
        self.injection |= !is_cut && self.sways(&scan);
        let is_found = self.redact != Redact::None
            && (is_cut
                || self.pack.gave_up(&scan, pack::names::PII).is_some()
                || self.pack.hits(&scan, pack::names::PII).next().is_some());
        self.dirty |= is_found;
        is_found.then(|| Some(scan).filter(|_| !is_cut))
    }

    /// Returns true for the next text of a second walk if nothing in it is to be replaced, and it
    /// has none of the secrets that were learnt; else its scan is the first to be used.
    pub(super) fn is_clean(&mut self, text: &str) -> bool {
        self.scan = None;
        let Some(marks) = &mut self.marks else { return false };
        if let Some(scan) = marks.take_next() {
            self.scan = scan;
            return false;
        }
        let has_secrets = !self.keyed.texts().is_empty();
        !has_secrets || self.keyed.search().is_some_and(|search| !search.is_match(text))
    }

    /// Returns true if a text gives orders to an agent, or to a judge.
    pub(super) fn sways(&self, scan: &Scan) -> bool {
        let rules = [pack::names::INJECTION, pack::names::JUDGE];
        rules.iter().any(|rule| self.pack.hits(scan, rule).next().is_some())
    }
}
