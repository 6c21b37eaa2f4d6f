//! Durations in human form.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};

/// Longest duration setting, 100 years: still a valid time when added to any clock.
const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A length of time such as `200ms`, `2s`, `1m30s`, `1h`, `14d`; never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct HumanDuration(pub Duration);

impl HumanDuration {
    /// Returns a duration of this many seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns a duration of this many milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// Returns whole milliseconds, at most `u64::MAX`.
    pub fn as_ms(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns whole nanoseconds, at most `u64::MAX`.
    pub fn as_ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer).map_err(|_| {
            D::Error::custom("a duration needs a unit, such as 200ms, 2s, 5m or 1h")
        })?;
        if text.trim() == "0" {
            return Ok(Self::default());
        }
        match duration(&text) {
            Some(duration) if duration <= DURATION_MAX => Ok(Self(duration)),
            Some(_) => Err(D::Error::custom(format!("{text:?} is longer than 100 years"))),
            None => {
                // `30`, `1m30`, `1h30`
                let number = text.trim();
                let before = number.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
                let unit = if before.ends_with('h') { "m" } else { "s" };
                let meant = format!("{number}{unit}");
                let is_it = (before.is_empty() || before.ends_with(['h', 'm']))
                    && duration(&meant).is_some();
                let remedy =
                    if is_it { &*meant } else { "a number and a unit, as in 200ms, 2s, 5m" };
                Err(D::Error::custom(format!("{text:?} is not a duration; write {remedy}")))
            }
        }
    }
}

/// Seconds of a day, without regard to calendars.
const DAY_S: u64 = 24 * 60 * 60;

/// Reads a duration with an optional leading number of days.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let plain = |text: &str| Duration::try_from(text.parse::<jiff::SignedDuration>().ok()?).ok();
    let days = text
        .split_once('d')
        .and_then(|(days, rest)| Some((days.trim().parse::<u32>().ok()?, rest.trim())));
    match days {
        None => plain(text),
        Some((days, rest)) => {
            let rest = ["ays", "ay"].iter().find_map(|end| rest.strip_prefix(end)).unwrap_or(rest);
            let rest = rest.trim_start();
            let rest = if rest.is_empty() { Duration::ZERO } else { plain(rest)? };
            Some(Duration::from_secs(u64::from(days) * DAY_S) + rest)
        }
    }
}

impl serde::Serialize for HumanDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let whole_seconds = self.0.subsec_nanos() == 0;
        if whole_seconds {
            serializer.collect_str(&format_args!("{}s", self.0.as_secs()))
        } else {
            serializer.collect_str(&format_args!("{}ms", self.0.as_millis()))
        }
    }
}

impl JsonSchema for HumanDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Length of time with a unit: 200ms, 2s, 1m30s, 14d; at most 100 years.",
            "pattern": "^\\s*(0|[0-9].*[a-zA-Zµμ].*|[+]?[pP].*[0-9].*)\\s*$",
            "examples": ["200ms", "2s", "5m"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Node;
    use crate::value::Value;

    #[test]
    fn durations_need_a_unit() {
        let read = |value: Value<'_>| Node::from_value(&value).read::<HumanDuration>();
        assert_eq!(read("200ms".into()), Ok(HumanDuration::from_millis(200)));
        assert_eq!(read("1m30s".into()), Ok(HumanDuration::from_secs(90)));
        assert_eq!(read("0".into()), Ok(HumanDuration::default()));
        for written in ["14d", "14days", "14 days", "13day 24h"] {
            assert_eq!(read(written.into()), Ok(HumanDuration::from_secs(14 * DAY_S)), "{written}");
        }
        assert_eq!(read(" 1d 12h ".into()), Ok(HumanDuration::from_secs(36 * 3600)));
        for wrong in ["-2s", "soon", "d", "-1d", "1.5d", "1d2", "1dd", "2 seconds d"] {
            assert!(read(wrong.into()).is_err(), "{wrong}");
        }
        for wrong in [Value::from("2"), Value::from(5)] {
            assert!(read(wrong).is_err());
        }
    }

    #[test]
    fn durations_are_at_most_a_hundred_years() {
        let read = |text: &str| Node::from_value(&text.into()).read::<HumanDuration>();
        assert_eq!(read("876000h"), Ok(HumanDuration(DURATION_MAX)));
        for wrong in ["876000h1ms", "2562047788015215h", "4294967295d"] {
            let error = read(wrong).unwrap_err();
            assert!(error.message.contains("longer than 100 years"), "{error}");
        }
    }
}
