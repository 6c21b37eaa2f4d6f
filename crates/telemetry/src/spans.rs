//! Spans of this process over OTLP: requests to judges.
//!
//! They have their own resource and scope; spans of that scope are never judged. Spans beyond the
//! queue's limit are dropped and counted, so nothing waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::push::LAST_PUSH_TIME;
use super::settings::{MetricsOtlpSettings, OwnTracesSettings};
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::semconv::{OWN_SCOPE, SERVICE_NAME};
use spanscore_base::settings::Address;
use spanscore_net::client::Client;
use spanscore_net::metrics::CounterBy;

/// Limit on queued spans; more are dropped.
const WAITING_MAX: usize = 2_048;
/// Limit on the bytes of queued spans; more are dropped.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// Limit on the spans of one request.
const BATCH_MAX: usize = 512;
/// Bytes of spans in a request, unless a single span exceeds it.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Limit on a span's bytes, below the 4 MiB that backends accept; larger ones are dropped.
const SPAN_BYTES_MAX: usize = (4 << 20) - (64 << 10);
/// Failed requests per log line about the backend.
const LOG_EVERY: u64 = 60;

/// Recorder of our own spans. Cheap to clone.
#[derive(Clone)]
pub struct OwnSpans {
    waiting: mpsc::Sender<WaitingSpan>,
    outcomes: Arc<SpanOutcomes>,
    room: Arc<Semaphore>,
    holds_content: bool,
}

impl OwnSpans {
    /// Queues a span without waiting.
    pub fn record(&self, span: Span) {
        self.outcomes.held.fetch_add(1, Ordering::Relaxed);
        let bytes = span.encoded_len();
        let room = u32::try_from(bytes).ok().filter(|_| bytes <= SPAN_BYTES_MAX);
        let room = room.and_then(|it| Arc::clone(&self.room).try_acquire_many_owned(it).ok());
        let is_sent = room
            .is_some_and(|room| self.waiting.try_send(WaitingSpan { span, bytes, room }).is_ok());
        if !is_sent {
            self.outcomes.add("dropped", 1);
        }
    }

    /// Returns true if spans include content.
    pub fn holds_content(&self) -> bool {
        self.holds_content
    }
}

/// Span in the queue, with its share of the byte limit.
struct WaitingSpan {
    span: Span,
    bytes: usize,
    room: OwnedSemaphorePermit,
}

/// Task that sends the spans until all recorders are dropped or it is stopped.
pub(super) struct SpanPushing {
    spans: OwnSpans,
    task: JoinHandle<()>,
}

impl SpanPushing {
    /// Starts the task on the current runtime.
    pub(super) fn start(
        client: Client,
        traces: &OwnTracesSettings,
        settings: &MetricsOtlpSettings,
        meter: &Meter,
    ) -> Self {
        let outcomes = Arc::new(SpanOutcomes::new(meter));
        let (waiting, spans) = mpsc::channel(WAITING_MAX);
        let pusher = Pusher {
            client,
            endpoint: settings.endpoint.clone(),
            outcomes: Arc::clone(&outcomes),
            failed: 0,
        };
        let task = tokio::spawn(pusher.run(spans, settings.interval.0));
        let room = Arc::new(Semaphore::new(WAITING_BYTES_MAX));
        let spans = OwnSpans { waiting, outcomes, room, holds_content: traces.content };
        Self { spans, task }
    }

    pub(super) fn handle(&self) -> &OwnSpans {
        &self.spans
    }

    /// Sends the queued spans after all recorders are dropped, within [`LAST_PUSH_TIME`], and ends.
    pub(super) async fn finish(self) {
        let Self { spans, mut task } = self;
        let outcomes = Arc::clone(&spans.outcomes);
        drop(spans);
        if tokio::time::timeout(LAST_PUSH_TIME, &mut task).await.is_err() {
            task.abort();
            // The task counts its last spans before the rest counts as dropped.
            let _ = task.await;
            let left = outcomes.held.load(Ordering::Relaxed);
            outcomes.add("dropped", left);
            tracing::warn!(left, "the last spans of our own did not arrive in time");
        }
    }
}

struct Pusher {
    client: Client,
    endpoint: Address,
    outcomes: Arc<SpanOutcomes>,
    failed: u64,
}

impl Pusher {
    async fn run(mut self, mut waiting: mpsc::Receiver<WaitingSpan>, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            let room = BATCH_MAX - batch.len();
            let is_due = tokio::select! {
                count = waiting.recv_many(&mut batch, room) => match count {
                    0 => return self.send(batch).await,
                    _ => {
                        batch.len() == BATCH_MAX
                            || batch.iter().map(|it: &WaitingSpan| it.bytes).sum::<usize>()
                                >= BATCH_BYTES_MAX
                    }
                },
                _ = ticks.tick() => true,
            };
            if is_due {
                self.send(std::mem::take(&mut batch)).await;
            }
        }
    }

    /// Sends spans, in as many requests as their bytes need.
    async fn send(&mut self, batch: Vec<WaitingSpan>) {
        for part in parts(batch, |it| it.bytes) {
            self.send_part(part).await;
        }
    }

    /// Sends one request; the spans hold their room until it has ended.
    async fn send_part(&mut self, part: Vec<WaitingSpan>) {
        let (spans, _rooms): (Vec<_>, Vec<_>) =
            part.into_iter().map(|it| (it.span, it.room)).unzip();
        let count = spans.len() as u64;
        let body = self.client.prepare(request(spans).encode_to_vec());
        let Err(error) = self.client.send(Signal::Traces, body).await else {
            self.failed = 0;
            return self.outcomes.add("sent", count);
        };
        self.outcomes.add("failed", count);
        if self.failed.is_multiple_of(LOG_EVERY) {
            let endpoint = &self.endpoint;
            let error = error.text();
            tracing::warn!(%endpoint, error, "failed to report spans of our own");
        }
        self.failed += 1;
    }
}

/// Splits items in order into parts of at most [`BATCH_BYTES_MAX`], or of one larger item.
fn parts<T>(items: Vec<T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut parts: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        bytes += bytes_of(&item);
        match parts.last_mut().filter(|_| bytes <= BATCH_BYTES_MAX) {
            Some(part) => part.push(item),
            None => {
                bytes = bytes_of(&item);
                parts.push(vec![item]);
            }
        }
    }
    parts
}

fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let text = |key: &'static str, text: &'static str| (&KeyValue::new(key, text)).into();
    let attributes =
        vec![text(SERVICE_NAME, OWN_SCOPE), text("service.version", env!("CARGO_PKG_VERSION"))];
    let scope = InstrumentationScope {
        name: OWN_SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let of_scope = ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() };
    let of_resource = ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: vec![of_scope],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![of_resource] }
}

/// Counter of spans by outcome.
struct SpanOutcomes {
    counter: CounterBy,
    /// Recorded spans without an outcome.
    held: AtomicU64,
}

impl SpanOutcomes {
    fn new(meter: &Meter) -> Self {
        let about = "Spans of our own over OTLP, by outcome.";
        let declared = ["spanscore.telemetry.spans", "{span}", about];
        let counter = CounterBy::new(meter, declared, "outcome", ["sent", "failed", "dropped"]);
        Self { counter: counter.of(&[]), held: AtomicU64::new(0) }
    }

    fn add(&self, outcome: &'static str, count: u64) {
        self.held.fetch_sub(count, Ordering::Relaxed);
        self.counter.add(outcome, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::metrics::MeterProvider;

    #[track_caller]
    fn check_parts(bytes: &[usize], expected: &[&[usize]]) {
        assert_eq!(parts(bytes.to_vec(), |it| *it), expected);
    }

    #[test]
    fn a_part_ends_before_the_span_that_does_not_fit() {
        const MAX: usize = BATCH_BYTES_MAX;
        check_parts(&[], &[]);
        check_parts(&[1, MAX - 1, 1], &[&[1, MAX - 1], &[1]]);
        check_parts(&[MAX - 1, SPAN_BYTES_MAX, 1, 2], &[&[MAX - 1], &[SPAN_BYTES_MAX], &[1, 2]]);
    }

    #[track_caller]
    fn check_recorded(bytes: usize, is_queued: bool) {
        let meter = opentelemetry_sdk::metrics::SdkMeterProvider::default().meter("test");
        let (waiting, mut queue) = mpsc::channel(1);
        let outcomes = Arc::new(SpanOutcomes::new(&meter));
        let room = Arc::new(Semaphore::new(WAITING_BYTES_MAX));
        let spans = OwnSpans { waiting, outcomes, room, holds_content: true };
        spans.record(Span { name: "x".repeat(bytes), ..Span::default() });
        assert_eq!(queue.try_recv().is_ok(), is_queued, "{bytes}");
        let held = spans.outcomes.held.load(Ordering::Relaxed);
        assert_eq!(held, u64::from(is_queued), "what is dropped is counted");
    }

    #[test]
    fn a_span_that_no_backend_takes_is_dropped_and_counted() {
        check_recorded(SPAN_BYTES_MAX / 2, true);
        check_recorded(SPAN_BYTES_MAX, false);
    }
}
