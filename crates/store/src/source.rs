//! Source of a run: service, agent, version, environment.

use spanscore_base::model::{Resource, Target};
use spanscore_base::otlp::AnyValue;
use spanscore_base::otlp::any_value::key_values;

/// Longest part of a source, bytes; longer ones are cut.
const PART_BYTES_MAX: usize = 200;

/// Service, agent, version and environment; empty where the telemetry does not say.
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

    /// Builds a resource that says the same of service, version and environment.
    pub(crate) fn resource(&self) -> Resource {
        let attributes = [
            ("service.name", &self.service),
            ("service.version", &self.version),
            ("deployment.environment.name", &self.environment),
        ];
        let said = attributes.into_iter().filter(|(_, value)| !value.is_empty());
        let encoded = said.flat_map(|(key, value)| {
            let value = field(2, field(1, value.as_bytes().to_vec()));
            field(1, [field(1, key.as_bytes().to_vec()), value].concat())
        });
        Resource { encoded: encoded.collect(), service_name: self.service.to_string() }
    }

    /// Returns the source that stands for all beyond the limit.
    pub(crate) fn other() -> Self {
        Self { service: "other".into(), ..Self::default() }
    }
}

/// Encodes a field of bytes, shorter than 16 KiB: its tag, its length, itself.
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
