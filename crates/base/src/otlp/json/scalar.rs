//! Scalars: read from JSON, written as protobuf fields.

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use data_encoding::HEXLOWER_PERMISSIVE;
use smallvec::SmallVec;

use super::OtlpJsonError;
use super::reader::OtlpJsonReader;
use super::schema::{FieldKind, FieldSchema};
use crate::otlp::wire::{put_bytes, put_varint};

/// Wire type of strings, bytes and messages.
pub(super) const WIRE_BYTES: u32 = 2;
const WIRE_VARINT: u32 = 0;
const WIRE_FIXED64: u32 = 1;
const WIRE_FIXED32: u32 = 5;

/// Replacement of an id that is not hexadecimal: an invalid length, so that only its span is
/// rejected.
const NOT_AN_ID: &[u8] = &[0];

/// Base64 with or without padding, as protobuf's JSON form allows.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Writes a field's tag.
#[inline]
pub(super) fn tag(out: &mut Vec<u8>, number: u32, wire_type: u32) {
    put_varint(u64::from(number << 3 | wire_type), out);
}

/// Returns the length of a value as [`put_varint`] writes it.
pub(super) fn varint_bytes(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    bits.div_ceil(7).max(1) as usize
}

/// Fills a place with a varint, padded if the place is longer.
pub(super) fn varint_at(place: &mut [u8], mut value: u64) {
    let last = place.len() - 1;
    for (index, byte) in place.iter_mut().enumerate() {
        *byte = (value & 0x7f) as u8 | if index < last { 0x80 } else { 0 };
        value >>= 7;
    }
}

fn varint(out: &mut Vec<u8>, number: u32, value: u64) {
    tag(out, number, WIRE_VARINT);
    put_varint(value, out);
}

fn fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    tag(out, number, WIRE_FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Reads the next value as `field` requires and writes it.
pub(super) fn write(
    reader: &mut OtlpJsonReader<'_>,
    field: &FieldSchema,
    out: &mut Vec<u8>,
) -> Result<(), OtlpJsonError> {
    let number = field.number;
    match field.kind {
        FieldKind::String => put_bytes(number, string(reader, field)?.as_bytes(), out),
        FieldKind::Id => id(out, number, &string(reader, field)?),
        FieldKind::Base64 => {
            let value = BASE64
                .decode(string(reader, field)?.as_bytes())
                .map_err(|_| wrong(reader, field, "base64"))?;
            put_bytes(number, &value, out);
        }
        FieldKind::Bool => varint(out, number, boolean(reader, field)?.into()),
        FieldKind::Varint => varint(out, number, integer(reader, field)?),
        FieldKind::Zigzag => {
            let value = integer(reader, field)?.cast_signed();
            varint(out, number, ((value << 1) ^ (value >> 63)).cast_unsigned());
        }
        FieldKind::Enum if reader.peek() == Some(b'"') => {
            return Err(wrong(reader, field, "a number, names are not allowed"));
        }
        FieldKind::Enum => varint(out, number, integer(reader, field)?),
        FieldKind::Fixed32 => {
            let value = u32::try_from(integer(reader, field)?)
                .map_err(|_| wrong(reader, field, "a number below 2^32"))?;
            tag(out, number, WIRE_FIXED32);
            out.extend_from_slice(&value.to_le_bytes());
        }
        FieldKind::Fixed64 => fixed64(out, number, unsigned(reader, field)?),
        FieldKind::SignedFixed64 => fixed64(out, number, integer(reader, field)?),
        FieldKind::Double => fixed64(out, number, double(reader, field)?.to_bits()),
        // The walk opens messages itself.
        FieldKind::Message(_) => return Err(wrong(reader, field, "an object")),
    }
    Ok(())
}

fn wrong(reader: &OtlpJsonReader<'_>, field: &FieldSchema, what: &str) -> OtlpJsonError {
    reader.error(format!("`{}` must be {what}", field.name))
}

fn string<'a>(
    reader: &mut OtlpJsonReader<'a>,
    field: &FieldSchema,
) -> Result<std::borrow::Cow<'a, str>, OtlpJsonError> {
    match reader.peek() {
        Some(b'"') => reader.string(),
        _ => Err(wrong(reader, field, "a string")),
    }
}

fn boolean(reader: &mut OtlpJsonReader<'_>, field: &FieldSchema) -> Result<bool, OtlpJsonError> {
    match reader.peek() {
        Some(b't') => reader.word("true").map(|()| true),
        Some(b'f') => reader.word("false").map(|()| false),
        _ => Err(wrong(reader, field, "true or false")),
    }
}

/// Reads a 64-bit integer, written as a number or a string; a negative one in two's complement.
fn integer(reader: &mut OtlpJsonReader<'_>, field: &FieldSchema) -> Result<u64, OtlpJsonError> {
    let parsed = any_integer(reader)?;
    let signed = |value| i64::try_from(value).map(i64::cast_unsigned);
    let value = parsed.and_then(|value| u64::try_from(value).or_else(|_| signed(value)).ok());
    value.ok_or_else(|| wrong(reader, field, "an integer of 64 bits"))
}

/// Reads an unsigned 64-bit integer, written as a number or a string.
fn unsigned(reader: &mut OtlpJsonReader<'_>, field: &FieldSchema) -> Result<u64, OtlpJsonError> {
    let value = any_integer(reader)?.and_then(|value| u64::try_from(value).ok());
    value.ok_or_else(|| wrong(reader, field, "a number from 0 to 2^64 - 1"))
}

fn any_integer(reader: &mut OtlpJsonReader<'_>) -> Result<Option<i128>, OtlpJsonError> {
    Ok(match reader.peek() {
        Some(b'"') => parse_integer(&reader.string()?),
        Some(b'-' | b'0'..=b'9') => parse_integer(reader.number()?),
        _ => None,
    })
}

fn parse_integer(text: &str) -> Option<i128> {
    if let Ok(value) = text.parse::<u64>() {
        return Some(value.into());
    }
    if let Ok(value) = text.parse::<i64>() {
        return Some(value.into());
    }
    // `1e9` and `1.0` are integers in JSON, and some writers send times as `1.7e18`.
    let value = text.parse::<f64>().ok()?;
    let is_integer = value.fract() == 0.0 && value.abs() < 9.2e18;
    is_integer.then_some(value as i128)
}

fn double(reader: &mut OtlpJsonReader<'_>, field: &FieldSchema) -> Result<f64, OtlpJsonError> {
    let parsed = match reader.peek() {
        Some(b'"') => match &*reader.string()? {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            text => text.parse().ok().filter(|value: &f64| value.is_finite()),
        },
        Some(b'-' | b'0'..=b'9') => reader.number()?.parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| wrong(reader, field, "a number"))
}

/// Writes an id of any length; one that is not hexadecimal becomes [`NOT_AN_ID`].
fn id(out: &mut Vec<u8>, number: u32, text: &str) {
    let mut id = SmallVec::<[u8; 16]>::from_elem(0, text.len() / 2);
    let is_id = text.len().is_multiple_of(2)
        && HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), &mut id).is_ok();
    put_bytes(number, if is_id { &id } else { NOT_AN_ID }, out);
}
