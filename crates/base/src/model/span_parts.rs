//! Encoded parts of a span for expressions: name, kind, status and attributes.
//!
//! `extract` writes them on arrival, `evaluate` reads them for expressions over `spans`. The
//! encoding is an internal protobuf message: attributes as `KeyValue` in field 1, the name in field
//! 2, kind and status as two bytes in field 3.

use crate::otlp::any_value::key_values;
use crate::otlp::wire::{Field, Fields};
use crate::value::{Map, Value};

/// Field of an attribute.
pub const ATTRIBUTE: u8 = 1;
/// Field of the name.
pub const NAME: u8 = 2;
/// Field of kind and status.
pub const KIND_AND_STATUS: u8 = 3;

/// Words of `SpanKind`, by number.
const KINDS: [&str; 6] = ["unspecified", "internal", "server", "client", "producer", "consumer"];
/// Words of `StatusCode`, by number.
const STATUSES: [&str; 3] = ["unset", "ok", "error"];

/// Returns `name`, `kind`, `status` and `attributes` of an encoded span. Unreadable parts are left
/// out.
pub fn span_parts(encoded: &[u8]) -> Value<'_> {
    let mut name = "";
    let mut kind = 0;
    let mut status = 0;
    let mut fields = Fields::new(encoded);
    while let Ok(Some(field)) = fields.next() {
        match field {
            (number, Field::Bytes(bytes)) if number == u32::from(NAME) => {
                name = std::str::from_utf8(bytes).unwrap_or_default();
            }
            (number, Field::Bytes([a, b])) if number == u32::from(KIND_AND_STATUS) => {
                kind = usize::from(*a);
                status = usize::from(*b);
            }
            _ => {}
        }
    }
    let entries = key_values(encoded).flatten();
    let entries = entries.filter_map(|(key, value)| Some((key.into(), value.to_value().ok()?)));
    let attributes = Value::Map(Map::from_entries(entries.collect()));
    let word = |words: &[&'static str], at: usize| words.get(at).copied().unwrap_or("unknown");
    let parts = [
        ("name", Value::from(name)),
        ("kind", Value::from(word(&KINDS, kind))),
        ("status", Value::from(word(&STATUSES, status))),
        ("attributes", attributes),
    ];
    Value::Map(parts.into_iter().collect())
}
