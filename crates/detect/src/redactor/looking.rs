//! First walk over values that are shown together: learns secrets by their keys, and scans each
//! text once.
//!
//! In: a value. Out: the numbers of its texts that need replacement. The second walk reads no other
//! text again, except for secrets learnt elsewhere.

use std::collections::VecDeque;

use super::keys::{self, UnderKey};
use super::structure::{MapFacts, classes_of_items};
use super::{
    BYTES_MIN, DEPTH_MAX, Placeholders, Redact, Redactor, TEXT_BYTES_MIN, assigned, embedded,
};
use crate::pack::{self, Scan};
use spanscore_base::value::Value;

/// Limit on remembered scans of a value; further texts are scanned again.
const SCANS_MAX: usize = 256;

/// Mark of a text that needs replacement: its scan, if completed.
type TextMark = Option<Scan>;

/// Texts of a value that need replacement.
#[derive(Default)]
pub(super) struct TextMarks {
    /// Marks by text number in a walk.
    found: VecDeque<(u32, TextMark)>,
    /// Number of the walk's next text.
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

    /// Advances to the next text of a second walk.
    fn take_next(&mut self) -> Option<TextMark> {
        let number = self.next;
        self.next += 1;
        self.found.pop_front_if(|(found, _)| *found == number).map(|(_, mark)| mark)
    }
}

impl<N: Placeholders> Redactor<N> {
    /// Returns values that are shown together with placeholders; `None` if all may be shown
    /// unchanged.
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

    /// Scans a value under a key, and learns the secrets in it.
    pub fn look_at(&mut self, value: &Value<'_>, key: UnderKey) {
        self.walk(value, key, DEPTH_MAX, Some(&mut TextMarks::default()));
    }

    /// Scans a text under a key, and learns the secrets in it.
    pub fn look_at_entry(&mut self, key: UnderKey, text: &str) {
        self.learn_text(text, key, DEPTH_MAX);
        self.scan_text(text);
    }

    /// Scans a text without a key.
    pub fn look_at_text(&mut self, text: &str) {
        self.look_at_entry(UnderKey::NONE, text);
    }

    /// Learns the values of keys in a value under a key.
    pub fn learn(&mut self, value: &Value<'_>, key: UnderKey) {
        self.walk(value, key, DEPTH_MAX, None);
    }

    /// Learns the secrets in a value, and scans its texts if they are to be marked; returns true if
    /// it has secrets.
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

    /// Learns the secrets in a text under a key; returns true if it has any.
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

    /// Remembers a secret, and its part after a scheme, to replace them everywhere.
    fn know(&mut self, text: &str) {
        self.dirty = true;
        let bare = keys::scheme(text).map(|scheme| text[scheme..].trim());
        for secret in [text].into_iter().chain(bare) {
            if secret.len() >= BYTES_MIN && !self.keyed.know(secret) {
                self.gaps.unfollowed += 1;
            }
        }
    }

    /// Scans a text; it is marked if it needs replacement or could not be read.
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

    /// Returns true if the next text of a second walk needs no replacement and has no learnt
    /// secret; else its scan is the first to be used.
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
