//! Resource tagging: sets one attribute in each resource of an encoded request, and replaces the
//! sender's.
//!
//! The message is copied once and not decoded. A malformed part is copied unchanged after the
//! readable one, so readers find the break, and the attribute in each resource before it.

use super::number::{REQUEST_RESOURCES, RESOURCE};
use super::wire::{Field, Fields, Malformed, contents, put_bytes as put};

/// `Resource.attributes`, `KeyValue.key`.
const FIRST: u32 = 1;
/// `KeyValue.value`.
const VALUE: u32 = 2;
/// `AnyValue.string_value`.
const STRING: u32 = 1;

/// Returns the request with the text attribute in each resource; the fields down to it are the same
/// for all three signals.
pub fn tag_resources(request: &[u8], key: &str, value: &str) -> Vec<u8> {
    let attribute = key_value(key.as_bytes(), value.as_bytes());
    let mut out = Vec::with_capacity(request.len() + attribute.len() + 16);
    each(request, &mut out, |number, group, out| {
        let is_group = number == REQUEST_RESOURCES;
        if is_group {
            put(REQUEST_RESOURCES, &tag_group(group, key.as_bytes(), &attribute), out);
        }
        is_group
    });
    out
}

/// Returns a group with its resource first, since readers take the first of several.
fn tag_group(group: &[u8], key: &[u8], attribute: &[u8]) -> Vec<u8> {
    let mut resource = None;
    let mut rest = Vec::with_capacity(group.len());
    each(group, &mut rest, |number, found, _| {
        let is_resource = number == RESOURCE;
        if is_resource && resource.is_none() {
            resource = Some(tag_resource(found, key, attribute));
        }
        is_resource
    });
    let resource = resource.unwrap_or_else(|| tag_resource(&[], key, attribute));
    let mut out = Vec::with_capacity(resource.len() + rest.len() + 8);
    put(RESOURCE, &resource, &mut out);
    out.extend_from_slice(&rest);
    out
}

fn tag_resource(resource: &[u8], key: &[u8], attribute: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(resource.len() + attribute.len() + 8);
    put(FIRST, attribute, &mut out);
    each(resource, &mut out, |number, pair, _| number == FIRST && key_of(pair) == Some(key));
    out
}

/// Copies the fields of a message, except length-delimited ones for which `take` returns true.
fn each<'a>(
    message: &'a [u8],
    out: &mut Vec<u8>,
    mut take: impl FnMut(u32, &'a [u8], &mut Vec<u8>) -> bool,
) {
    let mut fields = Fields::new(message);
    loop {
        let before = fields.rest();
        match fields.next() {
            Ok(Some((number, Field::Bytes(found)))) if take(number, found, out) => {}
            Ok(Some(_)) => {
                let len = before.len() - fields.rest().len();
                out.extend_from_slice(before.get(..len).unwrap_or_default());
            }
            Ok(None) => return,
            Err(Malformed) => return out.extend_from_slice(before),
        }
    }
}

fn key_of(pair: &[u8]) -> Option<&[u8]> {
    // In protobuf the last field counts.
    contents(pair, FIRST).map_while(Result::ok).last()
}

fn key_value(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut any = Vec::new();
    let mut pair = Vec::new();
    put(STRING, value, &mut any);
    put(FIRST, key, &mut pair);
    put(VALUE, &any, &mut pair);
    pair
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn pair(key: &str, value: &str) -> KeyValue {
        let value = AnyValue { value: Some(Value::StringValue(value.to_owned())) };
        KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
    }

    fn request(resources: Vec<Option<Resource>>) -> ExportTraceServiceRequest {
        let spans = vec![Span { name: "n".repeat(300), ..Span::default() }];
        let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
        let groups = resources.into_iter().map(|resource| ResourceSpans {
            resource,
            scope_spans: scope_spans.clone(),
            schema_url: "s".to_owned(),
        });
        ExportTraceServiceRequest { resource_spans: groups.collect() }
    }

    #[test]
    fn each_resource_has_the_attribute_once_and_all_else_stays() {
        let own = Resource {
            attributes: vec![pair("a", "1"), pair("client", "forged"), pair("b", "2")],
            dropped_attributes_count: 3,
            ..Resource::default()
        };
        let sent = request(vec![Some(own.clone()), None]);
        let tagged = tag_resources(&sent.encode_to_vec(), "client", "team");
        let read = ExportTraceServiceRequest::decode(tagged.as_slice()).unwrap();
        let attributes = vec![pair("client", "team"), pair("a", "1"), pair("b", "2")];
        let only = Resource { attributes: attributes[..1].to_vec(), ..Resource::default() };
        assert_eq!(read, request(vec![Some(Resource { attributes, ..own }), Some(only)]));
    }

    proptest! {
        #[test]
        fn what_is_broken_is_tagged_as_far_as_it_can_be_read(
            cut in 0usize..700,
            at in 0usize..700,
            byte: u8,
        ) {
            let own = Resource { attributes: vec![pair("client", "x")], ..Resource::default() };
            let mut sent = request(vec![Some(own.clone()), Some(own)]).encode_to_vec();
            if let Some(place) = sent.get_mut(at) {
                *place = byte;
            }
            sent.truncate(cut);
            let tagged = tag_resources(&sent, "client", "team");
            prop_assert!(tagged.len() + 64 >= sent.len() / 2);
            if let Ok(read) = ExportTraceServiceRequest::decode(tagged.as_slice()) {
                for group in read.resource_spans {
                    let first = group.resource.unwrap().attributes.remove(0);
                    prop_assert_eq!(first, pair("client", "team"));
                }
            }
        }
    }
}
