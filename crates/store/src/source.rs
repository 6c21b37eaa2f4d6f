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

    /// Returns the source that stands for all beyond the limit.
    pub(crate) fn other() -> Self {
        Self { service: "other".into(), ..Self::default() }
    }
}

fn cut(text: &str) -> Box<str> {
    text[..text.floor_char_boundary(PART_BYTES_MAX)].into()
}
