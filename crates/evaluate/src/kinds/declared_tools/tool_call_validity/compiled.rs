//! Cache of compiled schemas by their text, bounded in bytes: traces repeat their definitions.
//!
//! A schema is compiled outside the lock, after its steps were charged. Cached ones cost the same,
//! so that earlier traces have no influence on a verdict.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value as Json;
use smart_default::SmartDefault;

use super::full::Schema;
use super::pattern;
use spanscore_base::model::Recent;

/// Limit on the estimated bytes of cached schemas. One schema counts for at most half of them and
/// may take 29 MiB, so the two heaviest fit, with 58 MiB.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Compiled bytes per byte of a schema's text.
const BYTES_PER_BYTE: usize = 16;
/// Compiled bytes per part of a pattern.
const BYTES_PER_PART: usize = 24;
/// Fixed bytes of a cache entry.
const BYTES_PER_ENTRY: usize = 1024;

/// Steps to compile one value of a schema, then one byte.
const STEPS_PER_NODE: usize = 400;
const STEPS_PER_BYTE: usize = 4;
/// Steps to compile a pattern, then each of its parts.
const STEPS_PER_PATTERN: usize = 20_000;
const STEPS_PER_PART: usize = 30;
/// Number of parses of a pattern: for its parts, its weight, and its compilation.
const PARSES: usize = 3;

/// Cost of compiling a schema.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct CompileWork {
    /// Number of values in the schema.
    nodes: usize,
    /// Patterns of the schema.
    pub(super) patterns: usize,
    /// Bytes of the longest pattern.
    pub(super) longest: usize,
    /// Steps to parse the patterns.
    parsing: usize,
    /// Parts of all patterns, with repetitions expanded.
    parts: usize,
    bytes: usize,
}

impl CompileWork {
    /// Measures a schema of `bytes` bytes, except the parts of its patterns; also returns the
    /// patterns.
    pub(super) fn of(schema: &Json, bytes: usize) -> (Self, Vec<&str>) {
        let mut work = Self { bytes, ..Self::default() };
        let mut patterns = Vec::new();
        let mut waiting = vec![schema];
        while let Some(schema) = waiting.pop() {
            work.nodes += 1;
            match schema {
                Json::Object(map) => {
                    for (key, value) in map {
                        match (key.as_str(), value) {
                            ("pattern", Json::String(pattern)) => patterns.push(pattern.as_str()),
                            ("patternProperties", Json::Object(by_pattern)) => {
                                patterns.extend(by_pattern.keys().map(String::as_str));
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
        work.patterns = patterns.len();
        work.longest = patterns.iter().map(|text| text.len()).max().unwrap_or(0);
        work.parsing = patterns.iter().map(|text| pattern::steps_to_parse(text)).sum();
        (work, patterns)
    }

    /// Counts the parts of the patterns by parsing them.
    pub(super) fn parse(&mut self, patterns: &[&str]) {
        let parts = patterns.iter().map(|text| pattern::parts(text));
        self.parts = parts.fold(0, usize::saturating_add).min(pattern::PARTS_MAX);
    }

    /// Returns true if the number or length of the patterns exceeds the limits.
    pub(super) fn is_refused(self) -> bool {
        self.patterns > super::full::PATTERNS_MAX || self.longest > pattern::TEXT_MAX
    }

    /// Returns the steps without the parts of the patterns.
    pub(super) fn steps_before_parts(self) -> usize {
        self.nodes * STEPS_PER_NODE
            + self.bytes * STEPS_PER_BYTE
            + self.patterns.saturating_mul(STEPS_PER_PATTERN)
            + self.parsing.saturating_mul(PARSES)
    }

    /// Returns the steps for the parts of the patterns.
    pub(super) fn steps_of_parts(self) -> usize {
        self.parts * STEPS_PER_PART
    }

    fn bytes_kept(self) -> usize {
        BYTES_PER_ENTRY + self.bytes * BYTES_PER_BYTE + self.parts * BYTES_PER_PART
    }
}

/// Result of compiling a schema.
#[derive(Clone)]
pub(super) struct Compiled {
    /// Compiled schema, or the error message.
    pub(super) schema: Result<Arc<Schema>, String>,
    /// Cost of compiling it.
    pub(super) work: CompileWork,
}

/// Recently used schemas.
#[derive(SmartDefault)]
pub(super) struct CompiledSchemas(
    #[default(Mutex::new(Recent::new(KEPT_BYTES_MAX)))] Mutex<Recent<Box<str>, Compiled>>,
);

impl CompiledSchemas {
    /// Returns the cached result of a text.
    pub(super) fn get(&self, text: &str) -> Option<Compiled> {
        self.0.lock().get(text).cloned()
    }

    /// Stores the result of compiling a text.
    pub(super) fn keep(&self, text: String, compiled: Compiled) {
        // The heaviest schemas are cached too: otherwise each trace with one would compile it
        // again.
        let bytes = compiled.work.bytes_kept().min(KEPT_BYTES_MAX / 2);
        self.0.lock().keep(text.into(), compiled, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_measured_wherever_they_stand_and_long_ones_refused() {
        let work = |schema: &str| {
            let json = serde_json::from_str(schema).unwrap();
            let (mut work, patterns) = CompileWork::of(&json, schema.len());
            work.parse(&patterns);
            work
        };
        let two = work(r#"{"patternProperties": {"^a": {"pattern": "b"}, "^c": {}}}"#);
        assert_eq!((two.patterns, two.longest, two.is_refused()), (3, 2, false));
        let one = |text: &str| work(&format!(r#"{{"pattern": "{text}"}}"#));
        assert!(one(r"\\w").steps_before_parts() > 2 * one("ab").steps_before_parts() / 2);
        assert!(!one(&"a".repeat(pattern::TEXT_MAX)).is_refused());
        assert!(one(&"a".repeat(pattern::TEXT_MAX + 1)).is_refused());
    }

    #[test]
    fn kept_schemas_are_bounded_by_bytes_and_the_latest_stay() {
        let schemas = CompiledSchemas::default();
        let work = CompileWork { bytes: 100 * 1024, ..CompileWork::default() };
        let compiled = Compiled { schema: Err(String::new()), work };
        for number in 0..200 {
            schemas.keep(number.to_string(), compiled.clone());
            assert!(schemas.get("0").is_some(), "what is asked for stays, {number}");
            assert!(schemas.0.lock().weight() <= KEPT_BYTES_MAX);
        }
        assert!(schemas.get("150").is_none() && schemas.get("199").is_some());
        let work = CompileWork { bytes: KEPT_BYTES_MAX, ..work };
        schemas.keep("heavy".into(), Compiled { work, ..compiled });
        assert!(schemas.get("heavy").is_some());
    }
}
