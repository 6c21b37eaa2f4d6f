//! Identity of a service: the parts of a resource that distinguish sources.

use std::borrow::Cow;

use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as ProtoAnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource as ProtoResource;
use prost::Message;

use super::{Grouping, shown};
use spanscore_base::model::Resource;
use spanscore_base::otlp::AnyValue;
use spanscore_base::otlp::any_value::key_values;
use spanscore_base::otlp::semconv::SERVICE_NAME;

/// Name, namespace and version of a service; empty if missing from the resource or not needed by
/// the grouping.
#[derive(Default)]
pub(super) struct ServiceIdentity<'r> {
    name: Cow<'r, str>,
    namespace: Cow<'r, str>,
    version: Cow<'r, str>,
}

impl<'r> ServiceIdentity<'r> {
    pub(super) fn of(resource: &'r Resource, grouping: Grouping) -> Self {
        let mut identity = Self { name: shown(&resource.service_name), ..Self::default() };
        if grouping == Grouping::Version {
            for (key, value) in key_values(&resource.encoded).flatten() {
                match (key, value) {
                    ("service.namespace", AnyValue::String(text)) => {
                        identity.namespace = shown(text)
                    }
                    ("service.version", AnyValue::String(text)) => identity.version = shown(text),
                    _ => {}
                }
            }
        }
        identity
    }

    /// Returns a unique key of the service: each part with its length in front.
    pub(super) fn key(&self) -> Vec<u8> {
        let parts = [&self.name, &self.namespace, &self.version];
        let mut key = Vec::new();
        for part in parts {
            key.extend_from_slice(&(part.len() as u32).to_be_bytes());
            key.extend_from_slice(part.as_bytes());
        }
        key
    }

    /// Returns the resource to show, with these parts only.
    pub(super) fn resource(&self) -> Resource {
        let parts = [
            (SERVICE_NAME, &self.name),
            ("service.namespace", &self.namespace),
            ("service.version", &self.version),
        ];
        let given = parts.into_iter().filter(|(_, value)| !value.is_empty());
        let attributes = given.map(|(key, value)| KeyValue {
            key: key.to_owned(),
            value: Some(ProtoAnyValue { value: Some(ProtoValue::StringValue(value.to_string())) }),
            ..KeyValue::default()
        });
        let resource =
            ProtoResource { attributes: attributes.collect(), ..ProtoResource::default() };
        Resource { encoded: resource.encode_to_vec(), service_name: self.name.to_string() }
    }
}
