//! Cache of compiled schemas by their text, within a limit in bytes: traces repeat their
//! definitions.
//!
//! A schema is compiled outside the lock, and only after its steps were charged: as many whether it
//! is cached or not, so that earlier traces have no influence on a verdict.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::Value as Json;

use super::full::Schema;

/// Estimated bytes that cached schemas may take.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Bytes of a compiled schema for each byte of its text.
const BYTES_PER_BYTE: usize = 16;
/// Bytes of a compiled pattern for each of its parts.
const BYTES_PER_PART: usize = 24;
/// Bytes of a cache entry beside those.
const BYTES_PER_ENTRY: usize = 1024;

/// Steps to compile one value of a schema, and one byte of it.
const STEPS_PER_NODE: usize = 400;
const STEPS_PER_BYTE: usize = 4;
/// Steps to compile a pattern, and each of its parts.
const STEPS_PER_PATTERN: usize = 20_000;
const STEPS_PER_PART: usize = 30;
/// Upper bound on the parts counted of patterns: more than any of an allowed size has.
const PARTS_MAX: usize = 1 << 20;

/// Work of compiling a schema.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct CompileWork {
    /// Values within the schema.
    nodes: usize,
    /// Patterns of the schema.
    pub(super) patterns: usize,
    /// Parts of all patterns, with repetitions multiplied out.
    parts: usize,
    bytes: usize,
}

impl CompileWork {
    /// Measures a schema whose text has `bytes` bytes.
    pub(super) fn of(schema: &Json, bytes: usize) -> Self {
        let mut work = Self { bytes, ..Self::default() };
        let mut waiting = vec![schema];
        while let Some(schema) = waiting.pop() {
            work.nodes += 1;
            match schema {
                Json::Object(map) => {
                    for (key, value) in map {
                        match (key.as_str(), value) {
                            ("pattern", Json::String(pattern)) => work.add(pattern),
                            ("patternProperties", Json::Object(patterns)) => {
                                patterns.keys().for_each(|pattern| work.add(pattern));
                            }
                            _ => {}
                        }
                    }
                    waiting.extend(map.values());
                }
                Json::Array(list) => waiting.extend(list),
                _ => {}
            }
        }
        work
    }

    fn add(&mut self, pattern: &str) {
        self.patterns += 1;
        // A schema with more patterns is refused: the rest is counted, not parsed.
        if self.patterns <= super::full::PATTERNS_MAX {
            let parts = regex_syntax::parse(pattern).map_or(pattern.len(), |hir| parts(&hir));
            self.parts = self.parts.saturating_add(parts).min(PARTS_MAX);
        }
    }

    /// Returns the steps that it takes.
    pub(super) fn steps(self) -> usize {
        self.nodes * STEPS_PER_NODE
            + self.bytes * STEPS_PER_BYTE
            + self.patterns.saturating_mul(STEPS_PER_PATTERN)
            + self.parts * STEPS_PER_PART
    }

    fn bytes_kept(self) -> usize {
        BYTES_PER_ENTRY + self.bytes * BYTES_PER_BYTE + self.parts * BYTES_PER_PART
    }
}

/// Counts the parts of a pattern, with its repetitions multiplied out.
fn parts(hir: &Hir) -> usize {
    let found = match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) => class.ranges().len(),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len(),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1) as usize;
            parts(&repetition.sub).saturating_mul(times)
        }
        HirKind::Capture(capture) => 1 + parts(&capture.sub),
        HirKind::Concat(list) | HirKind::Alternation(list) => {
            list.iter().fold(1, |sum: usize, part| sum.saturating_add(parts(part)))
        }
    };
    found.min(PARTS_MAX)
}

/// Result of compiling a schema's text.
#[derive(Clone)]
pub(super) struct Compiled {
    /// Compiled schema, or the error.
    pub(super) schema: Result<Arc<Schema>, String>,
    /// Work of compiling it.
    pub(super) work: CompileWork,
}

/// Cache of two generations: recently used schemas, and those used before them.
#[derive(Default)]
pub(super) struct CompiledSchemas {
    kept: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<Box<str>, Compiled>,
    old: HashMap<Box<str>, Compiled>,
    /// Bytes of the young generation.
    bytes: usize,
}

impl CompiledSchemas {
    /// Looks a text up; moves an entry of the old generation to the young one.
    pub(super) fn get(&self, text: &str) -> Option<Compiled> {
        // A poisoned lock does no harm: whatever a panic left is a map of compiled schemas.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.young.get(text) {
            return Some(known.clone());
        }
        let (text, known) = kept.old.remove_entry(text)?;
        kept.put(text, known.clone());
        Some(known)
    }

    /// Stores the result of compiling a text.
    pub(super) fn keep(&self, text: String, compiled: Compiled) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.put(text.into(), compiled);
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        let kept = self.kept.lock().unwrap();
        let all = kept.young.values().chain(kept.old.values());
        all.map(|compiled| compiled.work.bytes_kept()).sum()
    }
}

impl Generations {
    fn put(&mut self, text: Box<str>, compiled: Compiled) {
        let bytes = compiled.work.bytes_kept();
        if self.bytes + bytes > KEPT_BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        if self.young.insert(text, compiled).is_none() {
            self.bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(schema: &str) -> CompileWork {
        CompileWork::of(&serde_json::from_str(schema).unwrap(), schema.len())
    }

    #[test]
    fn repeated_parts_of_a_pattern_count_as_often_as_they_may_be_there() {
        let parts = |pattern: &str| work(&format!(r#"{{"pattern": "{pattern}"}}"#)).parts;
        assert_eq!(parts("[ab]{10}"), 10 * parts("[ab]"));
        assert!(parts(r"\\w{1,100}") > 50 * parts("[a-z]{1,100}"));
        assert_eq!(parts("((((a{1000}){1000}){1000}){1000})"), PARTS_MAX);
        let two = work(r#"{"patternProperties": {"^a": {"pattern": "b"}, "^c": {}}}"#);
        assert_eq!(two.patterns, 3);
    }

    #[test]
    fn kept_schemas_are_bounded_by_bytes_and_the_latest_stay() {
        let schemas = CompiledSchemas::default();
        let work = CompileWork { bytes: 100 * 1024, ..CompileWork::default() };
        let compiled = Compiled { schema: Err(String::new()), work };
        for number in 0..200 {
            schemas.keep(number.to_string(), compiled.clone());
            assert!(schemas.get("0").is_some(), "what is asked for stays, {number}");
            assert!(schemas.bytes() <= KEPT_BYTES_MAX);
        }
        assert!(schemas.get("150").is_none() && schemas.get("199").is_some());
    }
}
