//! Decoders: from what an instrumentation wrote to the value that it meant.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// How a value is read: a decoder's name or a chain of them (`a→b`), with alternatives (`a | b`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decode {
    text: String,
}

impl<'de> Deserialize<'de> for Decode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Decode;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a decoder such as `json` or `json:$.output | json_or_text`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Decode, E> {
                Ok(Decode { text: text.to_owned() })
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl JsonSchema for Decode {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Decode".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A decoder, or several: `a→b` applies b to what a yields, `a | b` is \
                            the first that yields."
        })
    }
}
