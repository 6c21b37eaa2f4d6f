//! Copies of encoded requests with some of their items: so the traces wanted of a request are
//! forwarded, and a refused request is bisected.
//!
//! The copy keeps all other bytes and their order, unknown fields included; only the lengths around
//! removed items change. Scopes and resources without a kept item are removed.

use std::ops::Range;

use prost::encoding::encode_varint;

use spanscore_base::otlp::number;
use spanscore_base::otlp::wire::{Field, Fields, Malformed};

/// Copies a request with only the items to keep; `None` if it has none.
pub(crate) fn only(request: &[u8], mut keep: impl FnMut(&[u8]) -> bool) -> Option<Vec<u8>> {
    const LEVELS: [u32; 3] = [number::REQUEST_RESOURCES, number::SCOPES, number::ITEMS];
    let mut out = Vec::with_capacity(request.len() / 2);
    copy(request, &LEVELS, &mut keep, &mut out).then_some(out)
}

/// Copies a request with only a range of its items.
pub(crate) fn part(request: &[u8], range: &Range<usize>) -> Vec<u8> {
    let mut places = 0..;
    let is_wanted = |_: &[u8]| places.next().is_some_and(|place| range.contains(&place));
    let mut part = only(request, is_wanted).unwrap_or_default();
    // It is kept while it is sent and retried.
    part.shrink_to_fit();
    part
}

/// Copies a message without unwanted items; returns true if it has a wanted one.
fn copy(
    message: &[u8],
    levels: &[u32],
    keep: &mut impl FnMut(&[u8]) -> bool,
    out: &mut Vec<u8>,
) -> bool {
    let Some((own, below)) = levels.split_first() else { return false };
    let mut fields = Fields::new(message);
    let mut is_any = false;
    loop {
        let left = fields.rest();
        match fields.next() {
            Ok(Some((number, Field::Bytes(inner)))) if number == *own => {
                if below.is_empty() {
                    if keep(inner) {
                        out.extend_from_slice(&left[..left.len() - fields.rest().len()]);
                        is_any = true;
                    }
                    continue;
                }
                let mut part = Vec::with_capacity(inner.len());
                if copy(inner, below, keep, &mut part) {
                    is_any = true;
                    encode_varint(u64::from(number) << 3 | 2, out);
                    encode_varint(part.len() as u64, out);
                    out.extend_from_slice(&part);
                }
            }
            Ok(Some(_)) => out.extend_from_slice(&left[..left.len() - fields.rest().len()]),
            Ok(None) | Err(Malformed) => return is_any,
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use prost::Message;

    use super::*;
    use crate::otlp::testing;

    #[test]
    fn parts_of_a_request_hold_its_records_below_their_resources() {
        let (events, spans) = testing::requests(5);
        assert_eq!(part(&events, &(0..5)), events);
        let count = |part: &[u8]| {
            let request = ExportLogsServiceRequest::decode(part).expect("a request");
            let counts =
                request.resource_logs.iter().map(|logs| logs.scope_logs[0].log_records.len());
            counts.collect::<Vec<_>>()
        };
        assert_eq!(count(&events), [3, 2]);
        assert_eq!(count(&part(&events, &(0..2))), [2]);
        assert_eq!(count(&part(&events, &(2..5))), [1, 2]);
        assert_eq!(part(&spans, &(0..5)), spans);
        assert_ne!(part(&spans, &(1..5)), spans);
    }
}
