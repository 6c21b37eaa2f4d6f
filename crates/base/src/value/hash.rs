//! Hashes of values: equal values have equal hashes.

use std::hash::BuildHasher;

use super::{Number, Value};

impl Value<'_> {
    /// Returns a hash that equal values share, regardless of the order of entries and the form of
    /// numbers; linear in the value.
    pub fn hash_with(&self, build: &impl BuildHasher) -> u64 {
        self.hash_by(build, &|text| build.hash_one(text))
    }

    /// Returns such a hash with texts hashed by `text`, which may call more of them equal.
    pub fn hash_by(&self, build: &impl BuildHasher, text: &impl Fn(&str) -> u64) -> u64 {
        match self {
            Self::Null => 1,
            Self::Bool(value) => 2 + u64::from(*value),
            Self::Number(number) => build.hash_one(nearest_double(number)),
            Self::String(own) => text(own),
            Self::List(list) => list.iter().fold(4, |sum, it| mix(sum, it.hash_by(build, text))),
            Self::Map(map) => hash_entries(map.iter(), build, text),
        }
    }
}

/// Sums the hashes of entries, since their order does not count.
pub fn hash_entries<'v, 'a: 'v>(
    entries: impl Iterator<Item = (&'v str, &'v Value<'a>)>,
    build: &impl BuildHasher,
    text: &impl Fn(&str) -> u64,
) -> u64 {
    entries.fold(5, |sum: u64, (key, value)| {
        sum.wrapping_add(mix(build.hash_one(key), value.hash_by(build, text)))
    })
}

/// Returns the bits of the nearest double, the same for all equal numbers and for all that are
/// none.
fn nearest_double(number: &Number) -> u64 {
    match number.as_f64() {
        0.0 => 0,
        double if double.is_nan() => u64::MAX,
        double => double.to_bits(),
    }
}

/// Mixes the hash of a part into that of the parts before it.
pub fn mix(sum: u64, part: u64) -> u64 {
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
