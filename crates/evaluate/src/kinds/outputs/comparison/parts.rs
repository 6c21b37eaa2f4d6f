//! Description of the differences of two values.

use crate::shared::pairing::counted;
use crate::shared::report;
use spanscore_base::model::Explanation;
use spanscore_base::value::python::{PyStr, PyValue};

/// Limit on the steps to find differences: a visited value, or a few keys.
const STEPS_MAX: usize = 100_000;
/// Limit on described differences; further ones are not searched for.
const PARTS_MAX: usize = 16;

/// Walk over two values in parallel.
struct Walk {
    steps_left: usize,
    /// True if unexpected entries count.
    extra: bool,
    path: Vec<String>,
    found: Vec<String>,
}

/// Describes the parts of `actual` that differ; shows only names from `expected`.
pub(super) fn differing(expected: &PyValue<'_>, actual: &PyValue<'_>, extra: bool) -> Explanation {
    let mut walk = Walk { steps_left: STEPS_MAX, extra, path: Vec::new(), found: Vec::new() };
    walk.compare(expected, actual);
    let mut words = Explanation::default();
    report::few(&mut words, walk.found, |words, part| words.push(&part));
    words
}

impl Walk {
    fn take(&mut self, steps: usize) -> bool {
        let left = self.steps_left.checked_sub(steps);
        self.steps_left = left.unwrap_or(0);
        left.is_some() && self.found.len() < PARTS_MAX
    }

    fn compare(&mut self, expected: &PyValue<'_>, actual: &PyValue<'_>) {
        use PyValue as V;
        if !self.take(1) {
            return;
        }
        match (expected, actual) {
            (V::Dict(entries), V::Dict(found)) => {
                let mut known = 0;
                for (key, value) in entries {
                    if !self.take(1 + found.len() / 8) {
                        return;
                    }
                    let V::Str(key) = key else { continue };
                    self.path.push(key.as_str().unwrap_or("?").to_owned());
                    match actual.get_text(key) {
                        Some(found) => {
                            known += 1;
                            self.compare(value, found);
                        }
                        None => self.tell("is missing"),
                    }
                    self.path.pop();
                }
                match found.len() - known {
                    0 => {}
                    _ if !self.extra => {}
                    1 => self.tell("has another entry"),
                    more => self.tell(&format!("has {more} other entries")),
                }
            }
            (V::List(items), V::List(found)) => {
                if items.len() != found.len() {
                    let count = counted(found.len(), "item");
                    let wanted = items.len();
                    self.tell(&format!("has {count}, expected {wanted}"));
                }
                for (at, (item, found)) in items.iter().zip(found).enumerate() {
                    self.path.push(at.to_string());
                    self.compare(item, found);
                    self.path.pop();
                }
            }
            (V::Str(expected), V::Str(actual)) => {
                let points = |text: &PyStr<'_>| text.code_points().count();
                let count = points(expected);
                let length = points(actual);
                let both = expected.code_points().zip(actual.code_points());
                let same = both.take_while(|(a, b)| a == b).count();
                if self.take((count + length) / 16) && (same < count || same < length) {
                    self.tell(&format!(
                        "differs from character {} on ({length} characters, expected {count})",
                        same + 1
                    ));
                }
            }
            _ if expected != actual => self.tell("is not as expected"),
            _ => {}
        }
    }

    fn tell(&mut self, what: &str) {
        let path = self.path.join(".");
        let part = if path.is_empty() { "it".to_owned() } else { format!("`{path}`") };
        self.found.push(format!("{part} {what}"));
    }
}
