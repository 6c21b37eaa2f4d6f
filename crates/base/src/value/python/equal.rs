//! Python's `==` and the uniqueness of dict keys and set members.

use std::cmp::Ordering;

use hashbrown::{HashMap, HashSet};

use super::{PyError, PyValue};
use crate::value::Number;

/// Largest dict that is scanned; larger ones are indexed.
const SMALL: usize = 16;

impl PartialEq<PyValue<'_>> for PyValue<'_> {
    fn eq(&self, other: &PyValue<'_>) -> bool {
        use PyValue as V;
        if let (V::Str(a), V::Str(b)) = (self, other) {
            return a == b;
        }
        if let (Some(a), Some(b)) = (as_complex(self), as_complex(other)) {
            return a == b;
        }
        match (self, other) {
            (V::None, V::None) | (V::Ellipsis, V::Ellipsis) => true,
            (V::Bytes(a), V::Bytes(b)) => a == b,
            (V::List(a), V::List(b)) | (V::Tuple(a), V::Tuple(b)) => a == b,
            (V::Set(a), V::Set(b)) => a.len() == b.len() && same_members(a, b),
            (V::Dict(a), V::Dict(b)) => a.len() == b.len() && same_entries(a, b),
            _ => false,
        }
    }
}

/// Returns a number with its imaginary part; real parts stay exact.
fn as_complex(value: &PyValue<'_>) -> Option<(Number, f64)> {
    match value {
        PyValue::Bool(value) => Some((Number::Int(i64::from(*value)), 0.0)),
        PyValue::Number(number) => Some((number.clone(), 0.0)),
        PyValue::Complex(re, im) => Some((Number::Float(*re), *im)),
        _ => None,
    }
}

fn same_members(a: &[PyValue<'_>], b: &[PyValue<'_>]) -> bool {
    let keys = |members: &[PyValue<'_>]| -> Option<Vec<Vec<u8>>> {
        let mut keys = members.iter().map(key_of).collect::<Option<Vec<_>>>()?;
        keys.sort_unstable();
        Some(keys)
    };
    keys(a) == keys(b)
}

type DictEntry<'a> = (PyValue<'a>, PyValue<'a>);

fn same_entries(a: &[DictEntry<'_>], b: &[DictEntry<'_>]) -> bool {
    if b.len() <= SMALL {
        return a.iter().all(|(key, value)| {
            b.iter().find(|(k, _)| k == key).is_some_and(|(_, found)| found == value)
        });
    }
    let index: HashMap<Option<Vec<u8>>, &PyValue<'_>> =
        b.iter().map(|(key, value)| (key_of(key), value)).collect();
    a.iter().all(|(key, value)| index.get(&key_of(key)).is_some_and(|found| *found == value))
}

/// Removes repeated keys, keeping the first place and the last value.
pub(super) fn unique_entries(entries: Vec<DictEntry<'_>>) -> Result<Vec<DictEntry<'_>>, PyError> {
    if let Some(is_repeated) = repeats_text(&entries) {
        return Ok(if is_repeated { merge(entries)? } else { entries });
    }
    merge(entries)
}

/// Returns the bytes of a text key.
fn text<'e>(entry: &'e DictEntry<'_>) -> &'e [u8] {
    if let PyValue::Str(key) = &entry.0 { key.as_bytes() } else { &[] }
}

/// Returns true if a dict with only text keys repeats one; `None` for other dicts.
fn repeats_text(entries: &[DictEntry<'_>]) -> Option<bool> {
    let text_of = |entry: &DictEntry<'_>| matches!(entry.0, PyValue::Str(_));
    if !entries.iter().all(text_of) {
        return None;
    }
    if entries.len() > SMALL {
        let mut seen = HashSet::with_capacity(entries.len());
        return Some(!entries.iter().all(|entry| seen.insert(text(entry))));
    }
    let is_old = |at: usize| entries[..at].iter().any(|other| text(other) == text(&entries[at]));
    Some((1..entries.len()).any(is_old))
}

fn merge(entries: Vec<DictEntry<'_>>) -> Result<Vec<DictEntry<'_>>, PyError> {
    let mut places: HashMap<Vec<u8>, usize> = HashMap::with_capacity(entries.len());
    let mut kept: Vec<DictEntry<'_>> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let encoded = key_of(&key).ok_or(PyError::Unhashable)?;
        let place = *places.entry(encoded).or_insert(kept.len());
        match kept.get_mut(place) {
            Some((_, old)) => *old = value,
            None => kept.push((key, value)),
        }
    }
    Ok(kept)
}

/// Returns an encoding that equal values share; `None` for unhashable values.
fn key_of(value: &PyValue<'_>) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    write_key(value, &mut key).then_some(key)
}

fn write_key(value: &PyValue<'_>, out: &mut Vec<u8>) -> bool {
    let mut tagged = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(bytes);
        true
    };
    match value {
        PyValue::None => tagged(b'n', b""),
        PyValue::Ellipsis => tagged(b'.', b""),
        PyValue::Bool(value) => tagged(b'i', if *value { b"1" } else { b"0" }),
        PyValue::Number(number) => tagged(b'i', number_key(number).as_bytes()),
        PyValue::Complex(re, im) if *im == 0.0 => {
            tagged(b'i', number_key(&Number::Float(*re)).as_bytes())
        }
        PyValue::Complex(re, im) => {
            let [re, im] = [re, im].map(|part| number_key(&Number::Float(*part)));
            tagged(b'c', format!("{re} {im}").as_bytes())
        }
        PyValue::Str(text) => tagged(b's', text.as_bytes()),
        PyValue::Bytes(bytes) => tagged(b'b', bytes),
        PyValue::Tuple(items) => {
            tagged(b't', &(items.len() as u64).to_le_bytes());
            items.iter().all(|item| write_key(item, out))
        }
        PyValue::List(_) | PyValue::Set(_) | PyValue::Dict(_) => false,
    }
}

/// Returns the decimal digits of a whole number, else the shortest form of the double.
fn number_key(number: &Number) -> String {
    match number {
        Number::Float(value)
            if value.is_finite() && value.fract().partial_cmp(&0.0) == Some(Ordering::Equal) =>
        {
            format!("{:.0}", if *value == 0.0 { 0.0 } else { *value })
        }
        Number::Float(value) => format!("{value:?}"),
        whole => whole.to_string(),
    }
}
