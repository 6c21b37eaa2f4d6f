//! `tool_call_count`: number of calls of each tool compared with the expected number.
//!
//! A tool without calls counts as 0; tools without a rule are ignored.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use smallvec::{SmallVec, smallvec};

use crate::compat::uipath::{self, Definition};
use crate::evaluator::{CodeEvaluator, Early, Evaluator, Kind};
use crate::shared::names::NameMap;
use crate::shared::pairing::{self, counted};
use crate::shared::report;
use spanscore_base::model::{Explanation, Facts, Outcome, ToolCall, Trajectory, Want};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Number, Value};

/// Registry entry of `tool_call_count`.
pub static KIND: Kind = Kind {
    name: "tool_call_count",
    about: "Compares the number of calls of each tool with the expected one.",
    also_known_as: &[
        ("tool-call-count", "UiPath"),
        ("uipath-tool-call-count", "UiPath"),
        ("ToolCallCountEvaluator", "UiPath"),
    ],
    threshold: 1.0,
    needs_criteria: true,
    early: true,
    schema: uipath::schema::<Settings, Criteria>,
    build,
    example: "\
tool_call_count/frugal:
  criteria:
    tool_calls_count: {search: [\"<=\", 3], send_email: [\"=\", 1]}
",
};

/// Settings of `tool_call_count`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Scores 1 if all counts are as expected, else 0. Without it, the score is the share of the
    /// counts that are. Default `false`.
    strict: bool,
}

/// Expected counts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// Expected count for the name or id of each tool: an operator and a number, such as `["<=",
    /// 3]`.
    #[serde(alias = "toolCallsCount", deserialize_with = "in_order")]
    #[schemars(with = "std::collections::BTreeMap<String, (Operator, u64)>")]
    tool_calls_count: Vec<WrittenRule>,
}

/// Name with its operator and count.
type WrittenRule = (String, OperatorAndCount);

/// Operator and expected count that a tool's calls are compared with.
#[derive(Clone, Copy, Debug)]
struct OperatorAndCount(Operator, ExpectedCount);

impl<'de> Deserialize<'de> for OperatorAndCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OperatorAndCountVisitor)
    }
}

struct OperatorAndCountVisitor;

impl<'de> Visitor<'de> for OperatorAndCountVisitor {
    type Value = OperatorAndCount;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an operator and a count, such as [\"<=\", 3]")
    }

    fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Self::Value, E> {
        Err(E::custom(format!(
            "a count needs an operator: write [\"=\", {count}] for exactly as many, \
             [\"<=\", {count}] for at most"
        )))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let sign = text.trim_end_matches(|it: char| it.is_ascii_digit());
        let remedy = match (sign.trim(), &text[sign.len()..]) {
            (_, "") => return Err(E::invalid_type(Unexpected::Str(text), &self)),
            ("", count) => format!("[\"=\", {count}]"),
            (sign, count) => format!("[\"{sign}\", {count}]"),
        };
        Err(E::custom(format!("an operator and a count are a list: write {remedy}")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let bound: Option<(String, u64)> = map.next_entry()?;
        let (word, count) = bound.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let sign = match &*word {
            "min" | "at_least" | "gte" => ">=",
            "max" | "at_most" | "lte" => "<=",
            ">=" | "<=" | ">" | "<" | "!=" => &word,
            _ => "=",
        };
        Err(A::Error::custom(format!(
            "an operator and a count are a list: write [\"{sign}\", {count}]"
        )))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let wrong = |count| A::Error::invalid_length(count, &self);
        let operator = list.next_element()?.ok_or_else(|| wrong(0))?;
        let count = list.next_element()?.ok_or_else(|| wrong(1))?;
        match list.next_element::<serde::de::IgnoredAny>()? {
            None => Ok(OperatorAndCount(operator, count)),
            Some(_) => Err(wrong(3)),
        }
    }
}

fn in_order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<WrittenRule>, D::Error> {
    struct RulesVisitor;
    impl<'de> serde::de::Visitor<'de> for RulesVisitor {
        type Value = Vec<WrittenRule>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a map of tool names to an operator and a count")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }
    deserializer.deserialize_map(RulesVisitor)
}

/// Comparison of the actual count with the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
enum Operator {
    /// Equal.
    #[serde(rename = "=", alias = "==")]
    Equal,
    /// Not equal.
    #[serde(rename = "!=")]
    Unequal,
    /// Greater.
    #[serde(rename = ">")]
    More,
    /// Less.
    #[serde(rename = "<")]
    Fewer,
    /// Greater or equal.
    #[serde(rename = ">=")]
    AtLeast,
    /// Less or equal.
    #[serde(rename = "<=")]
    AtMost,
}

impl Operator {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::More => order.is_gt(),
            Self::Fewer => order.is_lt(),
            Self::AtLeast => order.is_ge(),
            Self::AtMost => order.is_le(),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Unequal => "!=",
            Self::More => ">",
            Self::Fewer => "<",
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
        }
    }
}

/// Expected count: a whole number, not negative.
#[derive(Clone, Copy, Debug)]
struct ExpectedCount(u64);

impl<'de> Deserialize<'de> for ExpectedCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let whole = value.as_number().and_then(Number::as_i64);
        whole.and_then(|count| u64::try_from(count).ok()).map(Self).ok_or_else(|| {
            D::Error::custom(format!("{value} is no count: write a whole number from 0 on"))
        })
    }
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let definition = Definition::read(node, "tool-call-count")?;
    if definition.is_compat()? {
        return uipath::count::build(&definition);
    }
    let (settings, criteria): (Settings, Criteria) = definition.read_settings(node)?;
    let rules: Vec<CountRule> = criteria
        .tool_calls_count
        .into_iter()
        .map(|(name, OperatorAndCount(operator, count))| CountRule {
            name,
            operator,
            count: count.0,
        })
        .collect();
    let mut places = NameMap::default();
    for (at, rule) in rules.iter().enumerate() {
        *places.get_or_insert_with(&rule.name, || at) = at;
    }
    Ok(Evaluator::code(ToolCallCount { strict: settings.strict, rules, places }))
}

struct ToolCallCount {
    strict: bool,
    rules: Vec<CountRule>,
    /// Index of each name's rule.
    places: NameMap<usize>,
}

struct CountRule {
    name: String,
    operator: Operator,
    count: u64,
}

impl CountRule {
    fn holds(&self, actual: u64) -> bool {
        self.operator.holds(actual.cmp(&self.count))
    }

    /// Returns true if the count is already too high, which no later call can change.
    fn is_passed(&self, actual: u64) -> bool {
        match self.operator {
            Operator::Equal | Operator::AtMost => actual > self.count,
            Operator::Fewer => actual >= self.count,
            Operator::Unequal | Operator::More | Operator::AtLeast => false,
        }
    }

    fn words(&self, actual: u64) -> String {
        let Self { name, operator, count } = self;
        let times = counted(usize::try_from(actual).unwrap_or(usize::MAX), "time");
        format!("{name} was called {times}, expected {} {count}", operator.as_str())
    }

    fn entry(&self, actual: u64) -> Value<'static> {
        let mut entry = Map::new();
        entry.insert("name", self.name.clone());
        entry.insert("operator", self.operator.as_str());
        entry.insert("expected", self.count);
        entry.insert("actual", actual);
        entry.insert("score", if self.holds(actual) { 1.0 } else { 0.0 });
        Value::Map(entry)
    }
}

impl CodeEvaluator for ToolCallCount {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let counts = self.count(&trajectory.tool_calls);
        let checked = || self.rules.iter().zip(&counts);
        let kept = checked().filter(|(rule, actual)| rule.holds(**actual)).count();
        report::scored(
            pairing::share(kept, self.rules.len(), self.strict),
            want,
            || {
                let total = counted(self.rules.len(), "count");
                let mut words = Explanation::plain(format!("{kept} of {total} as expected"));
                let broken = checked().filter(|(rule, actual)| !rule.holds(**actual));
                report::few(&mut words, broken, |words, (rule, actual)| {
                    words.push(&rule.words(*actual));
                });
                words
            },
            || {
                let counts = checked().map(|(rule, actual)| rule.entry(*actual));
                Map::from([("counts", Value::List(counts.collect()))])
            },
        )
    }

    fn early(&self, trajectory: &Trajectory<'_>, want: Want) -> Option<Early> {
        let counts = self.count(&trajectory.tool_calls);
        let passed = || {
            let checked = self.rules.iter().zip(&counts);
            checked.filter(|(rule, actual)| rule.is_passed(**actual))
        };
        let (rule, actual) = passed().next()?;
        let best =
            pairing::share(self.rules.len() - passed().count(), self.rules.len(), self.strict);
        let outcome = report::scored(
            best,
            want,
            || Explanation::plain(rule.words(*actual)),
            || {
                let counts = passed().map(|(rule, actual)| rule.entry(*actual));
                Map::from([("counts", Value::List(counts.collect()))])
            },
        );
        Some(Early { outcome, best })
    }
}

impl ToolCallCount {
    /// Counts the calls with each rule's name or id.
    fn count(&self, calls: &[ToolCall<'_>]) -> SmallVec<[u64; 8]> {
        let mut counts = smallvec![0; self.rules.len()];
        for call in calls {
            let by_name = self.places.get(&call.name);
            let by_id = call.id.as_deref().and_then(|id| self.places.get(id));
            if let Some(place) = by_name {
                counts[*place] += 1;
            }
            if let Some(place) = by_id.filter(|place| by_name != Some(*place)) {
                counts[*place] += 1;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests;
