//! Size limit on details: long texts are cut, since details quote senders, and every exporter
//! copies, redacts and encodes them.

use std::borrow::Cow;

use spanscore_base::model::Outcome;
use spanscore_base::value::{Map, Number, Value};

/// Longest text, bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Limit on the bytes of all texts over [`SHORT_BYTES`] in an outcome; later ones are cut to that
/// length.
const DETAILS_BYTES_MAX: usize = 64 << 10;
/// Longest text that is never cut, bytes: such texts name tools, rules and keys.
const SHORT_BYTES: usize = 64;

/// Cuts long texts in an outcome's details, and appends their full length; returns their number.
pub(super) fn cut(outcome: &mut Outcome) -> u64 {
    let Outcome::Scored(score) = outcome else { return 0 };
    let mut look = Cut::new();
    if look.fits(&score.details) {
        return 0;
    }
    let mut cut = Cut::new();
    score.details = cut.value(std::mem::replace(&mut score.details, Value::Null));
    cut.texts
}

/// Remaining bytes for texts, and number of cut texts.
struct Cut {
    left: usize,
    texts: u64,
}

impl Cut {
    fn new() -> Self {
        Self { left: DETAILS_BYTES_MAX, texts: 0 }
    }

    /// Charges the bytes of a text; returns its new length, `None` if it stays whole.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        if bytes <= SHORT_BYTES {
            return None;
        }
        let room = TEXT_BYTES_MAX.min(self.left).max(SHORT_BYTES);
        self.left = self.left.saturating_sub(bytes.min(room));
        (bytes > room).then_some(room)
    }

    /// Returns true if a value needs no cut.
    fn fits(&mut self, value: &Value<'_>) -> bool {
        match value {
            Value::String(text) => self.take(text.len()).is_none(),
            Value::Number(Number::Big(digits)) => self.take(digits.len()).is_none(),
            Value::List(items) => items.iter().all(|item| self.fits(item)),
            Value::Map(map) => {
                map.iter().all(|(key, item)| self.take(key.len()).is_none() && self.fits(item))
            }
            _ => true,
        }
    }

    fn value(&mut self, value: Value<'static>) -> Value<'static> {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Number(Number::Big(digits)) => match self.take(digits.len()) {
                Some(room) => Value::String(self.shortened(&digits, room)),
                None => Value::Number(Number::Big(digits)),
            },
            Value::List(items) => {
                Value::List(items.into_iter().map(|item| self.value(item)).collect())
            }
            Value::Map(map) => {
                let entries = map.into_entries().into_iter();
                let cut = entries.map(|(key, item)| (self.text(key), self.value(item)));
                Value::Map(Map::from_entries(cut.collect()))
            }
            other => other,
        }
    }

    fn text(&mut self, text: Cow<'static, str>) -> Cow<'static, str> {
        match self.take(text.len()) {
            Some(room) => self.shortened(&text, room),
            None => text,
        }
    }

    fn shortened(&mut self, text: &str, room: usize) -> Cow<'static, str> {
        self.texts += 1;
        let kept = &text[..text.floor_char_boundary(room)];
        format!("{kept}… (cut, {} bytes)", text.len()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::model::{Explanation, Score};

    fn cut_of(details: Value<'static>) -> (u64, Value<'static>) {
        let mut outcome = Outcome::Scored(Score {
            value: 1.0,
            explanation: Explanation::default(),
            details,
            label: None,
        });
        let count = cut(&mut outcome);
        let Outcome::Scored(score) = outcome else { panic!("a score") };
        (count, score.details)
    }

    fn calls(count: usize, bytes: usize) -> Value<'static> {
        let call = |n: usize| {
            let text = format!("{n} {}", "ü".repeat(bytes / 2));
            let entry: Map<'static> =
                [("name", Value::from("find")), ("actual", Value::from(text))]
                    .into_iter()
                    .collect();
            Value::Map(entry)
        };
        Value::List((0..count).map(call).collect())
    }

    #[test]
    fn long_texts_are_cut_with_their_length_and_short_ones_stay() {
        assert_eq!(cut_of(calls(10, 4_000)), (0, calls(10, 4_000)));
        let (count, details) = cut_of(calls(1, 200_000));
        let call = &details.as_list().expect("a list")[0];
        let actual = call.get("actual").and_then(Value::as_str).expect("a text");
        assert!(actual.ends_with("ü… (cut, 200002 bytes)"), "{}", &actual[4_000..]);
        assert_eq!((count, call.get("name")), (1, Some(&Value::from("find"))));
        assert!(actual.len() < TEXT_BYTES_MAX + 64, "{}", actual.len());
        let digits = Number::from_decimal(&"7".repeat(5_000)).expect("a number");
        let (count, details) = cut_of(Value::Number(digits));
        assert!(count == 1 && details.as_str().is_some_and(|it| it.ends_with("5000 bytes)")));
    }

    #[test]
    fn all_texts_of_an_answer_are_bounded_together() {
        let (count, details) = cut_of(calls(64, 200_000));
        assert_eq!(count, 64);
        let bytes = details.to_string().len();
        assert!(bytes < DETAILS_BYTES_MAX + 64 * 200, "{bytes}");
    }
}
