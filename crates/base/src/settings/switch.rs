//! Config section that `false` disables.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Settings of a section, or `None` for `false`. Without the section the defaults apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch<T>(pub Option<T>);

impl<T: Default> Default for Switch<T> {
    fn default() -> Self {
        Self(Some(T::default()))
    }
}

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SwitchOrSettings<T>(PhantomData<T>);
        impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for SwitchOrSettings<T> {
            type Value = Switch<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false`, or a map of settings")
            }

            fn visit_bool<E: Error>(self, is_on: bool) -> Result<Switch<T>, E> {
                Ok(if is_on { Switch::default() } else { Switch(None) })
            }

            fn visit_unit<E: Error>(self) -> Result<Switch<T>, E> {
                Ok(Switch::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Switch<T>, A::Error> {
                let settings = T::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Switch(Some(settings)))
            }
        }
        deserializer.deserialize_any(SwitchOrSettings(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Switch<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}OrFalse", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let settings = generator.subschema_for::<T>();
        json_schema!({
            "description": "Settings of the section; `false` turns it off.",
            "anyOf": [settings, { "type": "boolean" }],
        })
    }
}
