//! Kafka topics as an input: their records enter the pipeline, and their traces hold positions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry::metrics::Meter;
use parking_lot::Mutex;

use crate::PipelineIntake;
use spanscore_assemble::OldestTrace;
use spanscore_base::model::{Memory, Sender};
use spanscore_emit::Exporters;
use spanscore_kafka::{FetchedRequest, KafkaReceiver, KafkaStartError, RecordSink, Untaken};
use spanscore_net::metrics;
use spanscore_receive::settings::ReceiversSettings;
use spanscore_receive::{AcceptedItems, ConnectionAccount, Received, Refused};

/// Age after which a trace is named for holding its partition back.
const NAMED_AGE: Duration = Duration::from_secs(10 * 60);
/// Shortest interval of log lines that name one.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

metrics! {
    /// Instruments of traces of partitions.
    struct TopicMetrics {
        dropped: Counter("spanscore.receiver.kafka.dropped_traces", "{trace}",
            "Open and remembered traces that went with their partition: its next owner reads them \
             again.");
        oldest: Gauge("spanscore.receiver.kafka.oldest_trace", "s",
            "Age of the trace that has held the position of its partition back for longest.");
    }
}

/// Metrics of the traces of partitions, over all shards.
pub(crate) struct PartitionMetrics {
    metrics: TopicMetrics,
    shown: Mutex<HeldPositions>,
}

/// Oldest trace of each shard, and the time of the last log line.
#[derive(Default)]
struct HeldPositions {
    oldest: Vec<Option<OldestTrace>>,
    last_logged: Option<Instant>,
}

impl PartitionMetrics {
    /// Returns them if topics are received.
    pub(crate) fn of(receivers: &ReceiversSettings, meter: &Meter) -> Option<Arc<Self>> {
        receivers.kafka.as_ref().map(|_| {
            let metrics = TopicMetrics::new(meter).of(&[]);
            Arc::new(Self { metrics, shown: Mutex::default() })
        })
    }

    /// Counts traces dropped by a shard.
    pub(crate) fn dropped(&self, index: usize, count: usize) {
        self.metrics.dropped.add(count as u64);
        if count > 0 {
            tracing::info!(shard = index, traces = count, "traces went with their partitions");
        }
    }

    /// Shows the trace of a shard with the longest held claim.
    pub(crate) fn held(&self, index: usize, oldest: Option<OldestTrace>) {
        let mut shown = self.shown.lock();
        if shown.oldest.len() <= index {
            shown.oldest.resize(index + 1, None);
        }
        shown.oldest[index] = oldest;
        let oldest = shown.oldest.iter().flatten().max_by_key(|trace| trace.age_ms);
        let age = Duration::from_millis(oldest.map_or(0, |trace| trace.age_ms));
        self.metrics.oldest.record(age.as_secs());
        let is_due = shown.last_logged.is_none_or(|last| last.elapsed() >= LOG_INTERVAL);
        if let Some(OldestTrace { trace_id, .. }) = oldest.filter(|_| is_due && age >= NAMED_AGE) {
            tracing::warn!(%trace_id, ?age, "a trace holds the position of its partition back, \
                until it is complete or beyond `traces.age_max`");
            shown.last_logged = Some(Instant::now());
        }
    }
}

/// Entry for the records of topics.
pub(crate) struct TopicIntake {
    intake: Arc<PipelineIntake>,
    exporters: Arc<Exporters>,
    account: Arc<ConnectionAccount>,
    accepted: AcceptedItems,
}

impl TopicIntake {
    pub(crate) fn new(
        intake: Arc<PipelineIntake>,
        exporters: &Arc<Exporters>,
        meter: &Meter,
    ) -> Self {
        let accepted = AcceptedItems::of(meter, "kafka");
        Self { intake, exporters: Arc::clone(exporters), account: Arc::default(), accepted }
    }

    /// Starts receiving, if topics are configured.
    pub(crate) async fn receive(
        self,
        receivers: &ReceiversSettings,
        has_sessions: bool,
        memory: &Memory,
        meter: &Meter,
    ) -> Result<KafkaReceiver, KafkaStartError> {
        let settings = receivers.kafka.as_ref();
        let memory = &memory.requests;
        KafkaReceiver::start(settings, has_sessions, Arc::new(self), memory, meter).await
    }
}

impl RecordSink for TopicIntake {
    async fn take(&self, fetched: FetchedRequest) -> Result<(), Untaken> {
        // Topics retain records longer than a queue can hold their results.
        if self.exporters.are_behind() {
            return Err(Untaken::NoRoom);
        }
        let FetchedRequest { signal, group, request, claims } = fetched;
        let sender = Sender::of_group(group);
        let received = Received { sender, ..Received::protobuf(signal, request) };
        let taken = self.intake.accept_of_topic(&received, claims, &self.account).await;
        match taken {
            Ok(extracted) => {
                self.accepted.add(signal, extracted.accepted);
                Ok(())
            }
            Err(Refused::Malformed(why)) => Err(Untaken::Malformed(why)),
            Err(Refused::Later { .. }) => Err(Untaken::NoRoom),
            Err(Refused::ShuttingDown) => Err(Untaken::Ending),
        }
    }

    async fn drop_revoked(&self) {
        self.intake.drop_revoked().await;
    }
}
