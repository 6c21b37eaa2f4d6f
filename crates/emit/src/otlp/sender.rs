//! Consumer of an OTLP exporter's queue: encodes evaluations as requests, sends them, and counts
//! the outcome.
//!
//! An evaluation needs one request or two, as an event and as a span, and counts as sent when all
//! its forms arrived. Requests hold one record per evaluation, in the same order in both forms, so
//! that one index means the same evaluation in both.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, BufMut, BytesMut};
use prost::Message;

use super::backend::Backend;
use super::convert::{self, Options};
use super::settings::{EvaluationForm, OtlpExporterSettings};
use super::split;
use crate::content::ContentFilter;
use crate::counters::Loss;
use crate::dead_letters::DeadLetters;
use crate::queue::{Delivery, EvaluationBatch, Parcel, SendRequests, size_of_evaluation};
use spanscore_base::model::Evaluation;
use spanscore_base::otlp::Signal;
use spanscore_base::panics::Panicked;
use spanscore_net::client::SendError;

/// Approximate bytes of attribute names in an encoded evaluation.
const NAMES_BYTES: usize = 1024;

/// Limit on tried parts of a refused request while none is accepted: the backend then refuses all,
/// for a reason other than a record's content.
const REFUSED_PARTS_MAX: usize = 64;

/// Consumer of an OTLP exporter's queue.
pub(super) struct BackendSender {
    backend: Arc<Backend>,
    filter: ContentFilter,
    form: RequestForm,
    dead_letters: DeadLetters,
}

/// Settings of requests: forms and limits.
#[derive(Clone, Copy)]
struct RequestForm {
    options: Options,
    event: bool,
    span: bool,
    count_max: usize,
    bytes_max: usize,
}

impl RequestForm {
    /// Encodes a batch in parts of one request each.
    fn requests(self, filter: &ContentFilter, batch: &EvaluationBatch) -> Vec<EncodedRequests> {
        let shown: Vec<_> = batch.iter().map(|part| filter.apply_all(part)).collect();
        let all: Vec<&Evaluation> = shown.iter().flat_map(|part| part.iter()).collect();
        let mut requests = Vec::new();
        let mut rest = all.as_slice();
        while !rest.is_empty() {
            let (part, after) = rest.split_at(self.request_len(rest));
            let events = self.event.then(|| convert::events(part, self.options).encode_to_vec());
            let spans = self.span.then(|| convert::spans(part, self.options).encode_to_vec());
            requests.push(EncodedRequests { count: part.len(), events, spans });
            rest = after;
        }
        requests
    }

    /// Returns the number of evaluations that fit in one request; at least one.
    fn request_len(self, evaluations: &[&Evaluation]) -> usize {
        let mut bytes = 0;
        let mut resource = None;
        let fit = evaluations.iter().take(self.count_max).take_while(|evaluation| {
            bytes += size_of_evaluation(evaluation) + NAMES_BYTES;
            if resource.replace(&evaluation.target.resource) != Some(&evaluation.target.resource) {
                bytes += evaluation.target.resource.encoded.len();
            }
            bytes <= self.bytes_max
        });
        fit.count().max(1)
    }
}

/// Evaluations encoded in each configured form.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EncodedRequests {
    count: usize,
    events: Option<Vec<u8>>,
    spans: Option<Vec<u8>>,
}

/// Bits of the forms in a parcel.
const EVENTS: u8 = 1;
const SPANS: u8 = 2;

/// Outcome of some evaluations in one form.
#[derive(Debug, Default)]
struct FormOutcome {
    /// Records that the backend rejected in accepted requests; it does not say which.
    rejected: u64,
    /// Index ranges of records that did not arrive, with the reason.
    gone: Vec<(Range<usize>, Loss)>,
}

impl BackendSender {
    pub(super) fn new(
        backend: Arc<Backend>,
        settings: &OtlpExporterSettings,
        filter: ContentFilter,
        dead_letters: DeadLetters,
    ) -> Self {
        let content = settings.content.is_shown();
        let options = Options { placement: settings.placement, content };
        let batch = &settings.sending_queue.batch;
        let event = settings.has(EvaluationForm::Event);
        let span = settings.has(EvaluationForm::Span);
        let count_max = batch.max_size;
        let bytes_max = batch.max_bytes;
        let form = RequestForm { options, event, span, count_max, bytes_max };
        Self { backend, filter, form, dead_letters }
    }

    /// Sends one form. A permanently refused request is bisected until each refused record is
    /// alone; those go to the dead letters.
    async fn send_form(
        &self,
        signal: Signal,
        request: Option<Vec<u8>>,
        count: usize,
    ) -> FormOutcome {
        let mut fate = FormOutcome::default();
        let Some(request) = request else { return fate };
        let error = match self.backend.send(signal, request.clone()).await {
            Ok(rejected) => {
                fate.rejected = rejected;
                return fate;
            }
            Err(error) => error,
        };
        if error.is_refusal() && count > 1 && !self.backend.refuses_all(signal) {
            self.send_parts(signal, &request, count, error, &mut fate).await;
            return fate;
        }
        let loss = self.give_up(signal, &request, &error).await;
        fate.gone.push((0..count, loss));
        fate
    }

    /// Sends the parts of a refused request. The largest and the smallest part alternate: so some
    /// part is accepted soon, both if refused records are scattered and if they are adjacent.
    async fn send_parts(
        &self,
        signal: Signal,
        request: &[u8],
        count: usize,
        refused: SendError,
        fate: &mut FormOutcome,
    ) {
        let mut parts = BTreeSet::new();
        let mut last = refused;
        cut(&mut parts, 0..count);
        let mut tries = 0;
        let mut is_any_taken = false;
        loop {
            let next = if tries % 2 == 0 { parts.pop_last() } else { parts.pop_first() };
            let Some((len, start)) = next else { return };
            let range = start..start + len;
            let part = split::part(request, &range);
            if !is_any_taken && tries >= REFUSED_PARTS_MAX {
                self.backend.note_refuses_all(signal, true);
                fate.gone.push((range, self.give_up(signal, &part, &last).await));
                continue;
            }
            tries += 1;
            let sent = self.backend.send(signal, part.clone()).await;
            self.backend.parts.add(outcome_word(&sent), 1);
            match sent {
                Ok(rejected) => {
                    is_any_taken = true;
                    fate.rejected += rejected;
                }
                Err(error) if error.is_refusal() && len > 1 => {
                    last = error;
                    cut(&mut parts, range);
                }
                Err(error) => {
                    fate.gone.push((range, self.give_up(signal, &part, &error).await));
                }
            }
        }
    }

    /// Gives up a request; returns the reason for counting its evaluations.
    async fn give_up(&self, signal: Signal, request: &[u8], error: &SendError) -> Loss {
        self.backend.log_loss(signal, error);
        let SendError::Refused(reason) = error else { return Loss::RetriesExhausted };
        if self.dead_letters.keep(signal, request, reason).await {
            Loss::DeadLettered
        } else {
            Loss::Refused
        }
    }
}

/// Returns the label value of a part's outcome.
fn outcome_word(sent: &Result<u64, SendError>) -> &'static str {
    match sent {
        Ok(_) => "taken",
        Err(error) if error.is_refusal() => "refused",
        Err(_) => "given_up",
    }
}

/// Adds the halves of a part.
fn cut(parts: &mut BTreeSet<(usize, usize)>, Range { start, end }: Range<usize>) {
    let middle = start.midpoint(end);
    parts.extend([(middle - start, start), (end - middle, middle)]);
}

impl SendRequests for BackendSender {
    type Request = EncodedRequests;

    fn is_unreachable(&self) -> bool {
        self.backend.is_away()
    }

    /// Encodes the batch in parts of one request each.
    async fn requests(&self, batch: &EvaluationBatch) -> Result<Vec<EncodedRequests>, Panicked> {
        let form = self.form;
        self.filter.make(batch, move |filter, batch| form.requests(filter, batch)).await
    }

    /// Sends some evaluations in all their forms.
    async fn send(&self, requests: EncodedRequests) -> Delivery {
        let EncodedRequests { count, events, spans } = requests;
        let forms = tokio::join!(
            self.send_form(Signal::Logs, events, count),
            self.send_form(Signal::Traces, spans, count)
        );
        account(count, forms.into())
    }

    /// Encodes it for the overflow on disk: a byte for the present forms, the length of the events,
    /// both.
    fn into_parcel(request: EncodedRequests) -> Parcel {
        let events = request.events.as_deref();
        let spans = request.spans.as_deref();
        let forms = u8::from(events.is_some()) * EVENTS + u8::from(spans.is_some()) * SPANS;
        let events = events.unwrap_or_default();
        let spans = spans.unwrap_or_default();
        let mut payload = BytesMut::with_capacity(1 + 8 + events.len() + spans.len());
        payload.put_u8(forms);
        payload.put_u64_le(events.len() as u64);
        payload.put_slice(events);
        payload.put_slice(spans);
        // No batch holds more than `u32::MAX`.
        let count = u32::try_from(request.count).unwrap_or(u32::MAX);
        Parcel { count, payload: payload.freeze() }
    }

    /// Decodes it from the overflow on disk; `None` if damaged.
    fn from_parcel(parcel: &Parcel) -> Option<EncodedRequests> {
        let mut payload = parcel.payload.clone();
        let forms = payload.try_get_u8().ok()?;
        let len = payload.try_get_u64_le().ok()?;
        let len = usize::try_from(len).ok().filter(|len| *len <= payload.len())?;
        let (events, spans) = payload.split_at(len);
        Some(EncodedRequests {
            count: usize::try_from(parcel.count).ok()?,
            events: (forms & EVENTS != 0).then(|| events.to_vec()),
            spans: (forms & SPANS != 0).then(|| spans.to_vec()),
        })
    }
}

/// Counts evaluations by the outcomes of their forms: as sent if all forms arrived, else once, by
/// the worst outcome.
fn account(count: usize, forms: [FormOutcome; 2]) -> Delivery {
    let rejected = forms.iter().map(|form| form.rejected).max().unwrap_or(0);
    let mut fates: Vec<Option<Loss>> = Vec::new();
    for (range, loss) in forms.into_iter().flat_map(|form| form.gone) {
        fates.resize(count, None);
        for fate in fates.get_mut(range).unwrap_or_default() {
            if fate.is_none_or(|fate| fate == Loss::DeadLettered) {
                *fate = Some(loss);
            }
        }
    }
    let mut lost = Vec::new();
    for reason in [Loss::Refused, Loss::DeadLettered, Loss::RetriesExhausted] {
        let evaluations = fates.iter().filter(|fate| **fate == Some(reason)).count() as u64;
        if evaluations > 0 {
            lost.push((reason, evaluations));
        }
    }
    let arrived = count as u64 - lost.iter().map(|(_, lost)| lost).sum::<u64>();
    let rejected = rejected.min(arrived);
    if rejected > 0 {
        lost.push((Loss::RejectedPartly, rejected));
    }
    Delivery { sent: arrived - rejected, lost }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fate(rejected: u64, gone: &[(Range<usize>, Loss)]) -> FormOutcome {
        FormOutcome { rejected, gone: gone.to_vec() }
    }

    #[test]
    fn requests_are_read_from_disk_as_they_were_kept() {
        let all = [(Some(b"events".to_vec()), Some(b"spans".to_vec())), (None, Some(Vec::new()))];
        for (events, spans) in all {
            let requests = EncodedRequests { count: 7, events, spans };
            let parcel = BackendSender::into_parcel(requests.clone());
            assert_eq!(BackendSender::from_parcel(&parcel), Some(requests));
        }
        for payload in [&b""[..], &[3, 9, 0, 0, 0, 0, 0, 0, 0, 1]] {
            let parcel = Parcel { count: 1, payload: payload.into() };
            assert_eq!(BackendSender::from_parcel(&parcel), None);
        }
    }

    #[test]
    fn evaluation_is_counted_once_by_the_worst_of_its_forms() {
        use Loss::{DeadLettered, Refused, RejectedPartly, RetriesExhausted};
        let events = fate(0, &[(0..2, DeadLettered), (5..6, Refused)]);
        let spans = fate(3, &[(1..3, Refused), (5..6, DeadLettered), (7..8, RetriesExhausted)]);
        let delivery = account(10, [events, spans]);
        let lost = [(Refused, 3), (DeadLettered, 1), (RetriesExhausted, 1), (RejectedPartly, 3)];
        assert_eq!(delivery, Delivery { sent: 2, lost: lost.to_vec() });
        assert_eq!(account(3, Default::default()), Delivery { sent: 3, lost: Vec::new() });
        let all = account(2, [fate(9, &[]), fate(0, &[])]);
        assert_eq!(all, Delivery { sent: 0, lost: vec![(RejectedPartly, 2)] });
    }
}
