//! Source of a run: service, agent, version, environment.

use spanscore_base::model::{Resource, Target};
use spanscore_base::otlp::AnyValue;
use spanscore_base::otlp::any_value::key_values;

/// Resource keys with stored values.
pub const RESOURCE_KEYS: [&str; 3] =
    ["service.name", "service.version", "deployment.environment.name"];
/// Longest part of a source, bytes; longer ones are truncated.
const PART_BYTES_MAX: usize = 200;

/// Service, agent, version and environment; empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RunSource {
    pub(crate) service: Box<str>,
    pub(crate) agent: Box<str>,
    pub(crate) version: Box<str>,
    pub(crate) environment: Box<str>,
}

impl RunSource {
    /// Reads the source from a resource.
    pub(crate) fn new(resource: &Resource, agent: Option<&str>) -> Self {
        let mut source = Self {
            service: cut(&resource.service_name),
            agent: cut(agent.unwrap_or_default()),
            ..Self::default()
        };
        for (key, value) in key_values(&resource.encoded).flatten() {
            let AnyValue::String(text) = value else { continue };
            match key {
                "service.version" => source.version = cut(text),
                "deployment.environment.name" => source.environment = cut(text),
                // Its name before version 1.27 of the conventions.
                "deployment.environment" if source.environment.is_empty() => {
                    source.environment = cut(text);
                }
                _ => {}
            }
        }
        source
    }

    /// Reads the source of an evaluation's target.
    pub(crate) fn of_target(target: &Target) -> Self {
        Self::new(&target.resource, target.agent_name.as_deref())
    }

    /// Builds the resource with these [`ResourceSums`] from the source, and returns the keys that
    /// the source cannot restore.
    pub(crate) fn resource(&self, sums: &ResourceSums) -> (Resource, Vec<&'static str>) {
        let parts = [&self.service, &self.version, &self.environment];
        let mut encoded = Vec::new();
        let mut unknown = Vec::new();
        for ((key, part), sum) in RESOURCE_KEYS.into_iter().zip(parts).zip(sums) {
            match sum {
                None => {}
                Some(sum) if *sum == text_sum(part) => {
                    let value = field(2, field(1, part.as_bytes().to_vec()));
                    let entry = [field(1, key.as_bytes().to_vec()), value].concat();
                    encoded.extend(field(1, entry));
                }
                Some(_) => unknown.push(key),
            }
        }
        let is_named = sums[0] == Some(text_sum(&self.service));
        let service_name = if is_named { self.service.to_string() } else { String::new() };
        (Resource { encoded, service_name }, unknown)
    }

    /// Returns the common source for all beyond the limit.
    pub(crate) fn other() -> Self {
        Self { service: "other".into(), ..Self::default() }
    }
}

/// Sums that identify the values of [`RESOURCE_KEYS`]; `None` for a missing key. A source may be
/// truncated, shared with others, or come from another key.
pub(crate) type ResourceSums = [Option<u32>; 3];

/// Sum for a value that is not a text; no text has it.
pub(crate) const OTHER_SUM: u32 = 0;

/// Returns the sums of a resource.
pub(crate) fn resource_sums(resource: &Resource) -> ResourceSums {
    RESOURCE_KEYS.map(|key| {
        let values = key_values(&resource.encoded).flatten();
        values
            .filter(|(it, _)| *it == key)
            .last()
            .map(|(_, value)| value.as_str().map_or(OTHER_SUM, text_sum))
    })
}

/// Computes the sum of a text (FNV-1a, never [`OTHER_SUM`]).
fn text_sum(text: &str) -> u32 {
    let add = |sum: u32, byte: u8| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, add).max(OTHER_SUM + 1)
}

/// Encodes a field of fewer than 16 KiB: tag, length, content.
fn field(number: u8, bytes: Vec<u8>) -> Vec<u8> {
    let tag = number << 3 | 2;
    let length = bytes.len();
    let low = (length & 0x7f) as u8;
    let head =
        if length < 0x80 { vec![tag, low] } else { vec![tag, low | 0x80, (length >> 7) as u8] };
    [head, bytes].concat()
}

fn cut(text: &str) -> Box<str> {
    text[..text.floor_char_boundary(PART_BYTES_MAX)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a resource of texts; `#` stands for a number.
    fn resource(entries: &[(&str, &str)]) -> Resource {
        let entry = |&(key, text): &(&str, &str)| {
            let value = if text == "#" { vec![0x18, 7] } else { field(1, text.into()) };
            field(1, [field(1, key.into()), field(2, value)].concat())
        };
        let name = entries.iter().find(|(key, _)| *key == RESOURCE_KEYS[0]);
        let service_name = name.map(|(_, name)| (*name).to_owned()).unwrap_or_default();
        Resource { encoded: entries.iter().flat_map(entry).collect(), service_name }
    }

    fn check(stored: Option<RunSource>, given: &[(&str, &str)], unknown: &[&str]) {
        let given = resource(given);
        let source = stored.unwrap_or_else(|| RunSource::new(&given, None));
        let sums = resource_sums(&given);
        let (restored, found) = source.resource(&sums);
        assert_eq!(found, unknown);
        for ((key, before), after) in RESOURCE_KEYS.iter().zip(sums).zip(resource_sums(&restored)) {
            assert_eq!(after, before.filter(|_| !unknown.contains(key)), "{key}");
        }
        let is_named = !unknown.contains(&RESOURCE_KEYS[0]);
        assert_eq!(restored.service_name == given.service_name, is_named);
    }

    #[test]
    fn resource_is_restored_as_it_was_or_its_key_told() {
        let [name, version, environment] = RESOURCE_KEYS;
        let long = "ä".repeat(PART_BYTES_MAX);
        check(None, &[], &[]);
        check(None, &[(name, "shop"), (version, ""), (environment, "prod")], &[]);
        check(None, &[(name, "shop"), ("deployment.environment", "prod")], &[]);
        check(None, &[(name, &long), (environment, &long)], &[name, environment]);
        check(None, &[(version, "#"), (environment, "prod")], &[version]);
        let other = || Some(RunSource::other());
        check(other(), &[(name, "shop"), (version, "2")], &[name, version]);
        check(other(), &[(name, "other")], &[]);
    }
}
