//! Hashes of values: equal values have equal hashes.

use std::hash::BuildHasher;

use super::{Number, Value};

impl Value<'_> {
    /// Returns a hash that equal values share, regardless of the order of entries and the form of
    /// numbers; linear in the value.
    pub fn hash_with(&self, build: &impl BuildHasher) -> u64 {
        match self {
            Self::Null => 1,
            Self::Bool(value) => 2 + u64::from(*value),
            Self::Number(number) => build.hash_one(nearest_double(number)),
            Self::String(text) => build.hash_one(&**text),
            Self::List(list) => list.iter().fold(4, |sum, item| mix(sum, item.hash_with(build))),
            Self::Map(map) => map.iter().fold(5, |sum: u64, (key, value)| {
                sum.wrapping_add(mix(build.hash_one(key), value.hash_with(build)))
            }),
        }
    }
}

/// Returns the bits of the nearest double, the same for all equal numbers.
fn nearest_double(number: &Number) -> u64 {
    let double = number.as_f64();
    if double == 0.0 { 0 } else { double.to_bits() }
}

fn mix(sum: u64, part: u64) -> u64 {
    (sum.rotate_left(5) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use crate::value::json;

    #[test]
    fn equal_values_have_equal_hashes() {
        let build = hashbrown::DefaultHashBuilder::default();
        let hash = |text| {
            let value = json::parse(text).expect("JSON");
            (value.hash_with(&build), value)
        };
        for (one, other) in [
            (r#"{"a": 1, "b": [true, null]}"#, r#"{"b": [true, null], "a": 1.0}"#),
            ("[0, -0.0]", "[-0.0, 0]"),
            ("100000000000000000000", "1e20"),
        ] {
            let (a, one) = hash(one);
            let (b, other) = hash(other);
            assert_eq!((a, one), (b, other));
        }
        assert_ne!(hash("[1, 2]").0, hash("[2, 1]").0);
        assert_ne!(hash(r#"{"a": "b"}"#).0, hash(r#"{"b": "a"}"#).0);
    }
}
