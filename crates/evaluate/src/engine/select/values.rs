//! Conversion of values to those of the CEL crate.

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString,
};
use cel::common::value::Val;

use spanscore_base::otlp::AnyValue;
use spanscore_base::value::{Number, Value};

/// Builds a list of texts.
pub(super) fn list<'v>(names: &[&'v str]) -> CelList<'v> {
    let names = names.iter().map(|name| Box::new(CelString::from(*name)) as Box<dyn Val + 'v>);
    CelList::from(names.collect::<Vec<_>>())
}

/// Builds a map of attributes without undecodable ones.
pub(super) fn map<'v>(entries: impl Iterator<Item = (&'v str, AnyValue<'v>)>) -> CelMap<'v> {
    let entries = entries.filter_map(|(key, value)| Some((key, value.to_value().ok()?)));
    cel_map(entries.map(|(key, value)| (CelString::from(key), value)))
}

#[expect(clippy::disallowed_types, reason = "the CEL crate builds its maps from this type only")]
pub(super) fn cel_map<'v>(entries: impl Iterator<Item = (CelString<'v>, Value<'v>)>) -> CelMap<'v> {
    let entries = entries.map(|(key, value)| (CelMapKey::String(key), cel_value(value)));
    CelMap::from(entries.collect::<std::collections::HashMap<_, _>>())
}

pub(super) fn cel_list<'v>(values: impl Iterator<Item = Value<'v>>) -> CelList<'v> {
    CelList::from(values.map(cel_value).collect::<Vec<_>>())
}

fn cel_value<'v>(value: Value<'v>) -> Box<dyn Val + 'v> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(value)),
        Value::Number(Number::Int(value)) => Box::new(CelInt::from(value)),
        Value::Number(number) => Box::new(CelDouble::from(number.as_f64())),
        Value::String(text) => Box::new(CelString::from(text)),
        Value::List(list) => Box::new(cel_list(list.into_iter())),
        Value::Map(entries) => {
            let entries = entries.into_entries().into_iter();
            Box::new(cel_map(entries.map(|(key, value)| (CelString::from(key), value))))
        }
    }
}
