//! Replacement by placeholders: first values of keys in structures and texts, then findings of
//! detectors in the rest of a text.

use std::borrow::Cow;
use std::ops::Range;

use super::keys::UnderKey;
use super::marked::MarkedText;
use super::names::{Placeholders, word};
use super::structure::{MapFacts, classes_of_items};
use super::{
    BYTES_MIN, CREDENTIAL, DEPTH_MAX, GROWN_BYTES_MIN, GROWTH_MAX, Redact, Redactor, SECRET,
    TEXT_BYTES_MIN, WITHHELD, assigned, embedded, keys,
};
use crate::pack::{self, names};
use spanscore_base::value::{Map, Value};

/// Reasons for withholding a text.
enum Unshown {
    Steps,
    Size,
    Unread,
    /// It tries to sway a judge, which is reported separately.
    Sways,
}

/// Treatment of texts without a secret key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plain {
    /// Everything in them is replaced.
    Whole,
    /// Only values of keys in JSON are replaced; the surrounding text is still to be read.
    Keyed,
}

impl<N: Placeholders> Redactor<N> {
    /// Replaces in a value under a key.
    pub fn replace(&mut self, value: &mut Value<'static>, key: UnderKey) {
        self.replace_value(value, key, (Plain::Whole, DEPTH_MAX));
    }

    /// Replaces in a text under a key.
    pub fn replace_entry(&mut self, key: UnderKey, text: &mut String) {
        if self.redact != Redact::None && key.holds(text) {
            *text = self.names.placeholder(SECRET, text);
        } else {
            self.replace_text(text);
        }
    }

    /// Replaces in a text without a key.
    pub fn replace_text(&mut self, text: &mut String) {
        self.replace_within(text, DEPTH_MAX);
    }

    /// Replaces in a value; returns true if it changed.
    fn replace_value(
        &mut self,
        value: &mut Value<'static>,
        key: UnderKey,
        (plain, depth): (Plain, usize),
    ) -> bool {
        let Some(below) = depth.checked_sub(1) else {
            self.gaps.withheld.unread += 1;
            *value = Value::from(WITHHELD);
            return true;
        };
        let below = (plain, below);
        match value {
            Value::String(text) if plain == Plain::Whole && self.is_clean(text) => false,
            Value::String(text) => {
                let mut owned = std::mem::take(text).into_owned();
                let is_replaced = self.replace_string(&mut owned, key, (plain, depth));
                *text = Cow::Owned(owned);
                is_replaced
            }
            Value::Number(number) => {
                let number = number.to_string();
                if plain == Plain::Whole && self.is_clean(&number) {
                    return false;
                }
                let shown = self.replaced_number(&number, key, plain);
                let is_replaced = shown.is_some();
                if let Some(shown) = shown {
                    *value = Value::from(shown);
                }
                is_replaced
            }
            Value::List(list) => {
                let keys = classes_of_items(list, key);
                let items = list.iter_mut().zip(keys);
                items.fold(false, |any, (item, key)| self.replace_value(item, key, below) | any)
            }
            Value::Map(map) => {
                let facts = MapFacts::of(map, key);
                let mut is_replaced = false;
                let entries = std::mem::take(map).into_entries().into_iter();
                let entries = entries.map(|(key, mut item)| {
                    is_replaced |= self.replace_value(&mut item, facts.class(&key), below);
                    if plain == Plain::Keyed || self.is_clean(&key) {
                        return (key, item);
                    }
                    let mut key = key.into_owned();
                    self.replace_text(&mut key);
                    (Cow::Owned(key), item)
                });
                *map = Map::from_entries(entries.collect());
                is_replaced
            }
            Value::Null | Value::Bool(_) => false,
        }
    }

    fn replace_string(
        &mut self,
        text: &mut String,
        key: UnderKey,
        (plain, depth): (Plain, usize),
    ) -> bool {
        if self.redact != Redact::None && key.holds(text) {
            *text = self.names.placeholder(SECRET, text);
            return true;
        }
        match plain {
            Plain::Whole => self.replace_within(text, depth),
            Plain::Keyed => match self.replaced_json(text, depth) {
                Some(replaced) => *text = replaced,
                None => return false,
            },
        }
        true
    }

    /// Returns the placeholder of a number that is a secret under its key, or a card.
    fn replaced_number(&mut self, number: &str, key: UnderKey, plain: Plain) -> Option<String> {
        if self.redact != Redact::None && key.holds_number(number) {
            return Some(self.names.placeholder(SECRET, number));
        }
        if plain == Plain::Keyed || self.redact != Redact::SecretsAndPii {
            return None;
        }
        let mut shown = number.to_owned();
        self.replace_text(&mut shown);
        (shown != number).then_some(shown)
    }

    fn replace_within(&mut self, text: &mut String, depth: usize) {
        if text.len() < BYTES_MIN {
            return;
        }
        match self.replaced_text(text, depth) {
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

    /// Returns a text with placeholders; `None` if unchanged.
    fn replaced_text(&mut self, text: &str, depth: usize) -> Result<Option<String>, Unshown> {
        let bytes_max = text.len().saturating_mul(GROWTH_MAX).max(GROWN_BYTES_MIN);
        let mut marked = MarkedText::of(text);
        if self.redact != Redact::None {
            let has_keys = keys::may_stand_in(text);
            if has_keys && let Some(replaced) = self.replaced_json(text, depth) {
                marked = MarkedText::with(replaced, SECRET);
            }
            self.replace_keyed(&mut marked, bytes_max)?;
            if has_keys {
                self.replace_assigned(&mut marked, bytes_max)?;
            }
        }
        // Each round replaces something other than a placeholder, so it terminates.
        loop {
            let bytes = marked.text().len().max(TEXT_BYTES_MIN);
            self.replace_bytes = self.replace_bytes.checked_sub(bytes).ok_or(Unshown::Steps)?;
            let known = self.scan.take().filter(|_| marked.is_unchanged());
            let scan = || self.pack.scan(marked.text(), self.replace_steps);
            let scan = known.unwrap_or_else(scan);
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
            let found = marked.widened(self.found(marked.text(), &scan)?);
            if found.is_empty() {
                break;
            }
            let numbers = &mut self.names;
            let text = marked.text();
            let named = found.into_iter().map(|(range, word)| {
                let name = numbers.placeholder(&word, &text[range.clone()]);
                (range, name)
            });
            marked = marked.replaced(named, bytes_max).ok_or(Unshown::Size)?;
        }
        Ok(marked.into_changed())
    }

    /// Returns a text with the values of keys replaced in its JSON; `None` if there are none.
    fn replaced_json(&mut self, text: &str, depth: usize) -> Option<String> {
        let mut replaced: Option<String> = None;
        let mut from = 0;
        for (range, value) in embedded::json_parts(text) {
            let mut value = value.into_owned();
            let below = (Plain::Keyed, depth.saturating_sub(1));
            if self.replace_value(&mut value, UnderKey::NONE, below) {
                let out = replaced.get_or_insert_default();
                out.push_str(&text[from..range.start]);
                out.push_str(&value.to_string());
                from = range.end;
            }
        }
        if let Some(out) = &mut replaced {
            out.push_str(&text[from..]);
        }
        replaced
    }

    /// Replaces learnt values of keys, in one pass over the text, never within a placeholder.
    fn replace_keyed(
        &mut self,
        marked: &mut MarkedText<'_>,
        bytes_max: usize,
    ) -> Result<(), Unshown> {
        if self.keyed.texts().is_empty() {
            return Ok(());
        }
        let search = self.keyed.search().ok_or(Unshown::Unread)?;
        let found = search.find_iter(marked.text()).map(|it| (it.range(), it.pattern().as_usize()));
        let found = marked.widened(found.collect());
        if found.is_empty() {
            return Ok(());
        }
        // Numbered in the order of learning.
        let mut is_there = vec![false; self.keyed.texts().len()];
        found.iter().for_each(|(_, secret)| is_there[*secret] = true);
        let name = |(is_there, secret): (bool, &String)| {
            if is_there { self.names.placeholder(SECRET, secret) } else { String::new() }
        };
        let names: Vec<String> = is_there.into_iter().zip(self.keyed.texts()).map(name).collect();
        let found = found.into_iter().map(|(range, secret)| (range, &names[secret]));
        *marked = marked.replaced(found, bytes_max).ok_or(Unshown::Size)?;
        Ok(())
    }

    /// Replaces values after their names in a flat text.
    fn replace_assigned(
        &mut self,
        marked: &mut MarkedText<'_>,
        bytes_max: usize,
    ) -> Result<(), Unshown> {
        let found = assigned::secrets(marked.text()).into_iter().map(|range| (range, ()));
        let found = marked.widened(found.collect());
        if found.is_empty() {
            return Ok(());
        }
        let text = marked.text();
        let names = &mut self.names;
        let found = found.into_iter().map(|(range, ())| {
            let name = names.placeholder(SECRET, &text[range.clone()]);
            (range, name)
        });
        let replaced = marked.replaced(found.collect::<Vec<_>>().into_iter(), bytes_max);
        *marked = replaced.ok_or(Unshown::Size)?;
        Ok(())
    }

    /// Returns the findings to replace, sorted and without overlaps, with their placeholder words.
    /// A finding without a place makes the text unreadable.
    fn found(&self, text: &str, scan: &pack::Scan) -> Result<Vec<(Range<usize>, String)>, Unshown> {
        let mut found: Vec<pack::Finding> = Vec::new();
        for hit in self.pack.hits(scan, names::PII) {
            if self.redact != Redact::SecretsAndPii && hit.category() != CREDENTIAL {
                continue;
            }
            let before = found.len();
            found.extend(hit.findings(text));
            if found.len() == before {
                return Err(Unshown::Unread);
            }
        }
        found.retain(|one| !one.range.is_empty() && text.get(one.range.clone()).is_some());
        found.sort_by_key(|one| (one.range.start, usize::MAX - one.range.end));
        let mut apart: Vec<(Range<usize>, String)> = Vec::new();
        for finding in found {
            match apart.last_mut() {
                // It overlaps the one before, so they are merged: no part of it stays.
                Some((last, _)) if finding.range.start < last.end => {
                    last.end = last.end.max(finding.range.end);
                }
                _ => apart.push((finding.range, word(&finding.kind))),
            }
        }
        Ok(apart)
    }
}
