//! `serde` deserializer over a [`Node`]; errors carry the node's place.

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Expected, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use std::fmt::Display;

use super::nearest::{joined_key, meant_of, space_behind_colon};
use super::remedy::{main_setting, parts_of, separated};
use super::{Key, Node, NodeKind, SettingsError, called_here, nearest, related};
use crate::value::{Number, Value};

impl de::Error for SettingsError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let error = Self::new(format!("expected {}, found {}", in_words(expected), told(found)));
        match (found, &*in_words(expected)) {
            (Unexpected::Str(text), "a number") => {
                let is_number = text.parse().is_ok_and(f64::is_finite);
                error.or_share(text).or_nothing(text).or_bare(text, is_number)
            }
            (Unexpected::Str(text), "a whole number from 0" | "a whole number") => {
                error.or_nothing(text).or_bare(text, text.parse::<u64>().is_ok())
            }
            (Unexpected::Str(text), "true or false") => match &*text.to_lowercase() {
                "yes" | "on" | "y" => error.with_help("write `true`"),
                "no" | "off" | "n" => error.with_help("write `false`"),
                _ => error,
            },
            (Unexpected::Unsigned(_), BOOL_OR_MAP) => {
                error.with_help("write its settings below it, indented")
            }
            (Unexpected::Str(text), BOOL_OR_MAP) => match &*text.to_lowercase() {
                "yes" | "on" | "y" => error.with_help("write `true`"),
                "no" | "off" | "n" => error.with_help("write `false`"),
                _ => error.with_help("write its settings below it, indented"),
            },
            (Unexpected::Str(text), "a list") => {
                error.with_help(format!("write {:?}", parts_of(text)))
            }
            (Unexpected::Str(text), expected) if expected.starts_with("a list of ") => {
                error.or_numbers(text, expected)
            }
            (Unexpected::Map, "a text") => {
                error.with_help("write the text alone, without a key before it")
            }
            (Unexpected::Seq | Unexpected::Str(_), "a map") => error.with_help(MAP_EXAMPLE),
            (Unexpected::Float(number), "a whole number from 0")
                if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) =>
            {
                error.with_help(format!("write {number}"))
            }
            (Unexpected::Unit | Unexpected::Option, "a map") => {
                error.with_help("indent its settings below it, or leave it out")
            }
            (Unexpected::Map, "a list") => error.with_help("write `- ` before each entry"),
            (Unexpected::Seq, "a number" | "a whole number from 0") => {
                error.with_help("write one number, without brackets")
            }
            (Unexpected::Seq, "a text") => error.with_help("write one text, without brackets"),
            _ => error,
        }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        unknown("setting", field, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        unknown("value", variant, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("`{field}` is missing"))
    }
}

/// Expected forms of a [`Switch`](super::Switch), for its errors.
const BOOL_OR_MAP: &str = "`true`, `false`, or a map of settings";

/// Describes an expected value without our type names.
fn in_words(expected: &dyn Expected) -> String {
    let expected = expected.to_string();
    match expected.as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        other if other.starts_with("an array of length ") => {
            format!("a list of {}", other.trim_start_matches("an array of length "))
        }
        other if other.starts_with("struct ") => "a map".to_owned(),
        _ => expected,
    }
}

fn told(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => value.to_string(),
        Unexpected::Str(text) => format!("{text:?}"),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a map".to_owned(),
        other => other.to_string(),
    }
}

/// Settings whose list is written in place of the map around it.
const LISTED: [&str; 2] = ["tool_calls", "tool_calls_order"];
/// Help for a map that is written as a list.
const MAP_EXAMPLE: &str = "write `key: value`, without `- ` or brackets before it";

pub(super) fn unknown(what: &str, word: &str, expected: &[&'static str]) -> SettingsError {
    let error = SettingsError::new(format!("unknown {what} `{word}`"));
    if let Some((_, help)) = called_here(word, expected) {
        return error.with_help(help);
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return error.with_help("a comma ends a value: write a point in a number, such as 0.8");
    }
    if word.contains(|c: char| c.is_whitespace() && !c.is_ascii()) {
        return error.with_help("it holds a no-break space: indent with plain ones");
    }
    let meant = nearest(word, expected.iter().copied()).map_or_else(
        || meant_of(&related(word, expected.iter().copied())),
        |meant| meant_of(&[meant]),
    );
    error.with_help(match (meant, expected) {
        (Some(meant), _) => meant,
        // A call written as `search: {...}`.
        (None, ["name", "tool_name", ..])
            if !matches!(word, "type" | "id" | "optional" | "required") =>
        {
            format!("write `name: {word}`, its arguments below `args`")
        }
        // `threshold 0.9` without a colon.
        (None, _) if let Some((key, value)) = separated(word, expected) => {
            format!("write `{key}: {value}`")
        }
        (None, []) => "none is known here".to_owned(),
        (None, _) => format!("known are {}", expected.join(", ")),
    })
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = SettingsError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match &self.kind {
            NodeKind::Null => visitor.visit_unit(),
            NodeKind::Scalar(value) => visit_scalar(value, visitor),
            NodeKind::List(items) => visitor.visit_seq(Items(items.iter())),
            NodeKind::Map(entries) => {
                visitor.visit_map(NodeEntries { rest: entries.iter(), value: None })
            }
        }
        .map_err(|error: SettingsError| error.at(self.place))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match self.kind {
            NodeKind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        match &self.kind {
            NodeKind::Scalar(Value::String(word)) => {
                visitor.visit_enum(de::value::BorrowedStrDeserializer::new(word))
            }
            NodeKind::Map(entries) if entries.len() == 1 => {
                visitor.visit_enum(Variant(&entries[0]))
            }
            NodeKind::List(items) => {
                let error = SettingsError::new("expected one word, found a list");
                Err(match items.first().map(Node::to_value) {
                    Some(Value::String(word)) => error.with_help(format!(
                        "write `{word}` alone; another one needs an entry of its own"
                    )),
                    _ => error,
                })
            }
            _ => {
                let error = SettingsError::new("expected one word, or one key with its settings");
                Err(error.with_help(format!("known are {}", variants.join(", "))))
            }
        }
        .map_err(|error: SettingsError| error.at(self.place))
    }

    /// Passes an integer beyond 64 bits as decimal digits to a visitor that asks for bytes, which
    /// accepts any value, and as the nearest double to others.
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SettingsError> {
        match &self.kind {
            NodeKind::Scalar(Value::Number(Number::Big(digits))) => {
                visitor.visit_bytes(digits.as_bytes())
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        visitor.visit_newtype_struct(self)
    }

    /// Refuses a list, since serde would accept one for a struct. For a text the help lists the
    /// settings.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        match &self.kind {
            NodeKind::List(_) => {
                let error = SettingsError::new("expected a map, found a list");
                let listed = LISTED.iter().find(|name| fields.contains(name));
                let help = match (listed, fields) {
                    (Some(name), _) => format!("write `{name}:` before the list, and indent it"),
                    (None, []) => MAP_EXAMPLE.to_owned(),
                    (None, _) => format!("{MAP_EXAMPLE}; it takes {}", fields.join(", ")),
                };
                Err(error.with_help(help).at(self.place))
            }
            NodeKind::Scalar(value) if !fields.is_empty() => {
                self.deserialize_any(visitor).map_err(|error: SettingsError| {
                    let takes = format!("it takes {}", fields.join(", "));
                    let joined = value.as_str().and_then(joined_key);
                    // `host:4317` is an address, not a key.
                    let is_key =
                        |(name, value): &(&str, &str)| fields.contains(name) || !is_port(value);
                    let main = value.as_str().and_then(|text| main_setting(text, fields));
                    error.with_help(match (joined.filter(is_key), main) {
                        (Some(joined), _) => format!("{}; {takes}", space_behind_colon(joined)),
                        (None, Some(remedy)) => format!("write `{remedy}`"),
                        (None, None) => takes,
                    })
                })
            }
            _ => self.deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// Returns true for a port with an optional path.
fn is_port(text: &str) -> bool {
    text.split('/').next().is_some_and(|port| port.parse::<u16>().is_ok())
}

fn visit_scalar<'de, V: Visitor<'de>>(
    value: &'de Value<'static>,
    visitor: V,
) -> Result<V::Value, SettingsError> {
    match value {
        Value::Bool(value) => visitor.visit_bool(*value),
        Value::String(text) => visitor.visit_borrowed_str(text),
        Value::Number(Number::Int(value)) => match u64::try_from(*value) {
            Ok(value) => visitor.visit_u64(value),
            Err(_) => visitor.visit_i64(*value),
        },
        Value::Number(Number::Float(value)) => visitor.visit_f64(*value),
        Value::Number(Number::Big(digits)) => match digits.parse() {
            Ok(value) => visitor.visit_u64(value),
            Err(_) => visitor.visit_f64(digits.parse().unwrap_or(f64::NAN)),
        },
        _ => visitor.visit_unit(),
    }
}

struct Items<'de>(std::slice::Iter<'de, Node>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = SettingsError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, SettingsError> {
        self.0.next().map(|node| seed.deserialize(node).map_err(|e| e.at(node.place))).transpose()
    }
}

struct NodeEntries<'de> {
    rest: std::slice::Iter<'de, (Key, Node)>,
    value: Option<&'de Node>,
}

impl<'de> MapAccess<'de> for NodeEntries<'de> {
    type Error = SettingsError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, SettingsError> {
        let Some((key, node)) = self.rest.next() else { return Ok(None) };
        self.value = Some(node);
        seed.deserialize(de::value::BorrowedStrDeserializer::new(&key.text))
            .map(Some)
            .map_err(|error: SettingsError| error.at(key.place))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, SettingsError> {
        let Some(node) = self.value.take() else {
            return Err(SettingsError::new("a key without a value"));
        };
        seed.deserialize(node).map_err(|error| error.at(node.place))
    }
}

struct Variant<'de>(&'de (Key, Node));

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = SettingsError;
    type Variant = &'de Node;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, &'de Node), SettingsError> {
        let (key, node) = self.0;
        seed.deserialize(de::value::BorrowedStrDeserializer::new(&key.text))
            .map(|variant| (variant, node))
            .map_err(|error: SettingsError| error.at(key.place))
    }
}

impl<'de> VariantAccess<'de> for &'de Node {
    type Error = SettingsError;

    fn unit_variant(self) -> Result<(), SettingsError> {
        match self.kind {
            NodeKind::Null => Ok(()),
            _ => Err(SettingsError::new("this takes no settings").at(self.place)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, SettingsError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SettingsError> {
        self.deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Place;
    use crate::value::json;

    #[derive(serde::Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "only its reading is tested")]
        threshold: f64,
        #[expect(dead_code, reason = "only its reading is tested")]
        #[serde(default)]
        count: u32,
    }

    fn check(text: &str, message: &str) {
        let node = Node::from_value(&json::parse(text).unwrap_or_default());
        let error = node.read::<Sample>().map_or_else(|e| e.to_string(), |_| "read".to_owned());
        assert_eq!(error, message, "{text}");
    }

    #[test]
    fn mistakes_name_the_nearest_word() {
        check(r#"{"threshold": 0.5}"#, "read");
        check(r#"{"treshold": 0.5}"#, "unknown setting `treshold` (did you mean `threshold`?)");
        check("{}", "`threshold` is missing");
        let takes = "it takes threshold, count";
        check("[0.5]", &format!("expected a map, found a list ({MAP_EXAMPLE}; {takes})"));
        check(r#"{"threshold": "$0.5"}"#, "expected a number, found \"$0.5\" (write 0.5)");
        check(r#"{"threshold": "x"}"#, "expected a number, found \"x\"");
        let share = "expected a number, found \"80%\" (write 0.8 for 80%)";
        check(r#"{"threshold": "80%"}"#, share);
        let unit = "(write it in digits alone: no unit, no sign between them)";
        check(r#"{"threshold": "5 s"}"#, &format!("expected a number, found \"5 s\" {unit}"));
        let quoted = "expected a number, found \"5\" (write it without quotes)";
        check(r#"{"threshold": "5"}"#, quoted);
        let space = "(it holds a no-break space: indent with plain ones)";
        check("{\"\u{a0}x\": 1}", &format!("unknown setting `\u{a0}x` {space}"));
        let joined = "(write a space behind the colon: `threshold: 1`; it takes threshold, count)";
        check(r#""threshold:1""#, &format!("expected a map, found \"threshold:1\" {joined}"));
        let takes = "(it takes threshold, count)";
        check(r#""host:4317""#, &format!("expected a map, found \"host:4317\" {takes}"));
    }

    #[test]
    fn remedies_for_numbers_are_accepted() {
        let check_count = |count: &str, remedy: &str| {
            let told = if count.starts_with('"') {
                count.to_owned()
            } else {
                count.parse::<f64>().map_or_else(|e| e.to_string(), |number| number.to_string())
            };
            let message = format!("expected a whole number from 0, found {told}{remedy}");
            check(&format!(r#"{{"threshold": 1, "count": {count}}}"#), &message);
        };
        check_count("2.0", " (write 2)");
        check_count("-2.0", "");
        check_count("1e30", "");
        check_count(r#""5""#, " (write it without quotes)");
        let digits = " (write it in digits alone: no unit, no sign between them)";
        check_count(r#""1.5""#, digits);
        check_count(r#""1e3""#, digits);
    }

    #[test]
    fn errors_carry_the_place_of_the_value() {
        let key = Key { text: "threshold".into(), place: Place { line: 2, column: 3 } };
        let value =
            Node { kind: NodeKind::Scalar(Value::from("x")), place: Place { line: 2, column: 14 } };
        let node =
            Node { kind: NodeKind::Map(vec![(key, value)]), place: Place { line: 1, column: 1 } };
        let place = node.read::<Sample>().err().and_then(|error| error.place);
        assert_eq!(place, Some(Place { line: 2, column: 14 }));
    }
}
