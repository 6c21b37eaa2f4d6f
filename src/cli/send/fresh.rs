//! Rewriting of recorded requests as new ones, with new ids and shifted times.

use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::{DecodeError, Message};
use sha2::{Digest, Sha256};

use spanscore_base::otlp::Signal;
use spanscore_net::clock::since_1970;

/// Rewriter of ids and times. Equal ids stay equal.
pub(super) struct Fresh {
    seed: u64,
    /// Offset added to every time, nanoseconds.
    shift_ns: i128,
}

impl Fresh {
    /// Seeds new ids, and shifts times so that the last span ends now.
    pub(super) fn new<'a>(requests: impl Iterator<Item = &'a (Signal, Bytes)>) -> Self {
        let now = since_1970();
        let latest = requests.filter_map(|(signal, body)| latest_ns(*signal, body)).max();
        let shift_ns = latest.map_or(0, |latest| now.as_nanos() as i128 - i128::from(latest));
        Self { seed: RandomState::new().hash_one(now), shift_ns }
    }

    /// Rewrites a request in place; metrics stay unchanged.
    pub(super) fn rewrite(&self, signal: Signal, body: &mut Bytes) -> Result<(), DecodeError> {
        match signal {
            Signal::Traces => {
                let mut request = ExportTraceServiceRequest::decode(body.clone())?;
                spans(&mut request).for_each(|span| self.span(span));
                *body = request.encode_to_vec().into();
            }
            Signal::Logs => {
                let mut request = ExportLogsServiceRequest::decode(body.clone())?;
                let scopes = request.resource_logs.iter_mut().flat_map(|r| &mut r.scope_logs);
                for record in scopes.flat_map(|scope| &mut scope.log_records) {
                    self.id(&mut record.trace_id);
                    self.id(&mut record.span_id);
                    self.time(&mut record.time_unix_nano);
                    self.time(&mut record.observed_time_unix_nano);
                }
                *body = request.encode_to_vec().into();
            }
            Signal::Metrics => {}
        }
        Ok(())
    }

    fn span(&self, span: &mut Span) {
        self.id(&mut span.trace_id);
        self.id(&mut span.span_id);
        self.id(&mut span.parent_span_id);
        self.time(&mut span.start_time_unix_nano);
        self.time(&mut span.end_time_unix_nano);
        span.events.iter_mut().for_each(|event| self.time(&mut event.time_unix_nano));
        for link in &mut span.links {
            self.id(&mut link.trace_id);
            self.id(&mut link.span_id);
        }
    }

    /// Replaces an id by its keyed hash of the same length; an absent id stays absent.
    fn id(&self, id: &mut [u8]) {
        if id.iter().all(|byte| *byte == 0) {
            return;
        }
        let hash =
            Sha256::new().chain_update(self.seed.to_be_bytes()).chain_update(&*id).finalize();
        id.iter_mut().zip(hash).for_each(|(byte, new)| *byte = new);
    }

    fn time(&self, time_ns: &mut u64) {
        if *time_ns > 0 {
            *time_ns = u64::try_from(i128::from(*time_ns) + self.shift_ns).unwrap_or(*time_ns);
        }
    }
}

fn spans(request: &mut ExportTraceServiceRequest) -> impl Iterator<Item = &mut Span> {
    let scopes = request.resource_spans.iter_mut().flat_map(|r| &mut r.scope_spans);
    scopes.flat_map(|scope| &mut scope.spans)
}

fn latest_ns(signal: Signal, body: &Bytes) -> Option<u64> {
    if signal != Signal::Traces {
        return None;
    }
    let mut request = ExportTraceServiceRequest::decode(body.clone()).ok()?;
    spans(&mut request).map(|span| span.end_time_unix_nano).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_change_alike_and_times_move_together() {
        let body = super::super::sample().expect("the sample reads");
        let mut request = (Signal::Traces, body.clone());
        let fresh = Fresh::new(std::iter::once(&request));
        fresh.rewrite(request.0, &mut request.1).expect("the sample decodes");
        let mut old = ExportTraceServiceRequest::decode(body).expect("protobuf");
        let mut new = ExportTraceServiceRequest::decode(request.1).expect("protobuf");
        let (old, new): (Vec<_>, Vec<_>) = (spans(&mut old).collect(), spans(&mut new).collect());
        let trace = &new[0].trace_id;
        assert!(new.iter().all(|span| span.trace_id == *trace && *trace != old[0].trace_id));
        for (old, new) in old.iter().zip(&new) {
            assert_ne!(old.span_id, new.span_id);
            assert_eq!(old.parent_span_id.is_empty(), new.parent_span_id.is_empty());
            let length = |span: &Span| span.end_time_unix_nano - span.start_time_unix_nano;
            assert_eq!(length(old), length(new));
            assert!(new.end_time_unix_nano > old.end_time_unix_nano);
        }
        let parents = new.iter().filter(|span| !span.parent_span_id.is_empty());
        for span in parents {
            assert!(new.iter().any(|parent| parent.span_id == span.parent_span_id));
        }
    }
}
