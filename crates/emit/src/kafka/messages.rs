//! Messages of a batch: one per trace in OTLP, one per evaluation in JSON.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hashbrown::HashMap;
use prost::Message as _;

use super::settings::KafkaEncoding;
use crate::content::ContentFilter;
use crate::otlp::Placement;
use crate::otlp::convert::{self, Options};
use crate::otlp::split;
use crate::queue::{EvaluationBatch, Parcel};
use crate::record;
use spanscore_base::model::{Evaluation, TraceId};
use spanscore_kafka::{Message, key_of};

/// Message with its evaluations.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outgoing {
    trace_id: TraceId,
    pub(super) count: u32,
    pub(super) encoding: KafkaEncoding,
    pub(super) payload: Bytes,
}

impl Outgoing {
    /// Returns it in the producer's form.
    pub(super) fn message(&self) -> Message {
        Message { key: key_of(self.trace_id), headers: Vec::new(), payload: self.payload.clone() }
    }

    /// Returns its halves; `None` for a single evaluation.
    pub(super) fn halves(&self) -> Option<[Self; 2]> {
        if self.count < 2 || self.encoding != KafkaEncoding::OtlpProto {
            return None;
        }
        let middle = self.count / 2;
        let part = |from: u32, to: u32| Self {
            count: to - from,
            payload: split::part(&self.payload, &(from as usize..to as usize)).into(),
            ..self.clone()
        };
        Some([part(0, middle), part(middle, self.count)])
    }
}

/// Encodes a batch.
pub(super) fn of_batch(
    filter: &ContentFilter,
    batch: &EvaluationBatch,
    (encoding, content): (KafkaEncoding, bool),
) -> Vec<Outgoing> {
    let shown: Vec<_> = batch.iter().map(|part| filter.apply_all(part)).collect();
    let all = shown.iter().flat_map(|part| part.iter());
    match encoding {
        KafkaEncoding::Json => all.map(|evaluation| json(evaluation, content)).collect(),
        KafkaEncoding::OtlpProto => otlp(all, content),
    }
}

fn json(evaluation: &Evaluation, content: bool) -> Outgoing {
    let mut text = String::new();
    record::write(evaluation, content, &mut text);
    let trace_id = evaluation.target.trace_id;
    Outgoing { trace_id, count: 1, encoding: KafkaEncoding::Json, payload: text.into() }
}

/// Encodes the evaluations of each trace together, in order of appearance.
fn otlp<'a>(all: impl Iterator<Item = &'a Evaluation>, content: bool) -> Vec<Outgoing> {
    let mut places = HashMap::<TraceId, usize>::new();
    let mut traces: Vec<(TraceId, Vec<&Evaluation>)> = Vec::new();
    for evaluation in all {
        let trace_id = evaluation.target.trace_id;
        let place = *places.entry(trace_id).or_insert_with(|| {
            traces.push((trace_id, Vec::new()));
            traces.len() - 1
        });
        traces[place].1.push(evaluation);
    }
    let options = Options { placement: Placement::Child, content };
    let message = |(trace_id, evaluations): (TraceId, Vec<&Evaluation>)| Outgoing {
        trace_id,
        // No batch holds more than `u32::MAX`.
        count: u32::try_from(evaluations.len()).unwrap_or(u32::MAX),
        encoding: KafkaEncoding::OtlpProto,
        payload: convert::events(&evaluations, options).encode_to_vec().into(),
    };
    traces.into_iter().map(message).collect()
}

/// Encodes messages for the overflow on disk: each with its encoding, trace, count and length in
/// front.
pub(super) fn pack(messages: &[Outgoing]) -> Parcel {
    let mut payload = BytesMut::new();
    for message in messages {
        payload.put_u8(u8::from(message.encoding == KafkaEncoding::OtlpProto));
        payload.put_slice(&message.trace_id.0);
        payload.put_u32_le(message.count);
        payload.put_u64_le(message.payload.len() as u64);
        payload.put_slice(&message.payload);
    }
    let count = messages.iter().map(|message| message.count).sum();
    Parcel { count, payload: payload.freeze() }
}

/// Decodes messages from the overflow on disk; `None` if they are damaged.
pub(super) fn unpack(parcel: &Parcel) -> Option<Vec<Outgoing>> {
    let mut rest = parcel.payload.clone();
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let is_otlp = rest.try_get_u8().ok()? == 1;
        let mut trace_id = [0; 16];
        rest.try_copy_to_slice(&mut trace_id).ok()?;
        let count = rest.try_get_u32_le().ok()?;
        let len = rest.try_get_u64_le().ok()?;
        let len = usize::try_from(len).ok().filter(|len| *len <= rest.len())?;
        messages.push(Outgoing {
            trace_id: TraceId(trace_id),
            count,
            encoding: if is_otlp { KafkaEncoding::OtlpProto } else { KafkaEncoding::Json },
            payload: rest.split_to(len),
        });
    }
    Some(messages)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::otlp::testing;
    use spanscore_base::model::Target;

    /// Returns evaluations that alternate between two traces.
    fn batch(count: u8) -> EvaluationBatch {
        let mut all = testing::evaluations(count);
        for evaluation in all.iter_mut().skip(1).step_by(2) {
            let target = (*evaluation.target).clone();
            evaluation.target = Arc::new(Target { trace_id: TraceId([9; 16]), ..target });
        }
        vec![all.into()]
    }

    fn of(encoding: KafkaEncoding, count: u8) -> Vec<Outgoing> {
        of_batch(&ContentFilter::nothing(), &batch(count), (encoding, false))
    }

    #[test]
    fn evaluations_of_a_trace_go_together_in_otlp_and_alone_in_json() {
        let counts = |encoding| of(encoding, 5).iter().map(|it| it.count).collect::<Vec<_>>();
        assert_eq!(counts(KafkaEncoding::OtlpProto), [3, 2]);
        assert_eq!(counts(KafkaEncoding::Json), [1; 5]);
        let keys: Vec<_> = of(KafkaEncoding::Json, 2).iter().map(|it| it.message().key).collect();
        assert_eq!(keys, ["0af7651916cd43dd8448eb211c80319c", &"09".repeat(16)]);
        let text = &of(KafkaEncoding::Json, 1)[0].payload;
        assert!(text.starts_with(b"{\"evaluation_id\"") && text.ends_with(b"}"));
    }

    #[test]
    fn messages_are_halved_until_one_evaluation_is_left() {
        let [first, second] = of(KafkaEncoding::OtlpProto, 5)[0].halves().expect("halves");
        assert_eq!((first.count, second.count), (1, 2));
        assert_eq!(first.halves(), None);
        assert_eq!(second.halves().map(|it| it.map(|half| half.count)), Some([1, 1]));
        assert_eq!(of(KafkaEncoding::Json, 1)[0].halves(), None);
    }

    #[test]
    fn messages_are_read_from_disk_as_they_were_kept() {
        for encoding in [KafkaEncoding::OtlpProto, KafkaEncoding::Json] {
            let messages = of(encoding, 5);
            let parcel = pack(&messages);
            assert_eq!(parcel.count, 5);
            assert_eq!(unpack(&parcel), Some(messages));
            let cut = parcel.payload.slice(..parcel.payload.len() - 1);
            assert_eq!(unpack(&Parcel { count: 5, payload: cut }), None);
        }
    }
}
