//! Running receiver: checks the topics at its start, and commits at its end.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::group::{GroupContext, SignIn};
use super::lane::{Lane, SkipLog};
use super::metrics::KafkaMetrics;
use super::ownership::Ownership;
use super::poller::{ChunkRoom, Poller};
use super::settings::KafkaReceiverSettings;
use super::topics::{Assignor, assignor};
use super::{KafkaReceiver, KafkaStartError, RecordSink};
use crate::client_config;
use spanscore_base::model::MemoryQuota;
use spanscore_net::metrics::Meter;

/// Longest wait for the brokers at the start.
const START_WAIT: Duration = Duration::from_secs(10);
/// Kibibytes that the client reads ahead over all partitions, in addition to this process's limits.
const READ_AHEAD_KIB: &str = "16384";
/// Limit on lanes; more than cores are useless.
const LANES_MAX: usize = 8;
/// Fixed settings of the client.
const FIXED: [(&str, &str); 9] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // A group's first position is committed at its start, so this applies only if records were
    // deleted before they were read: then everything left is read.
    ("auto.offset.reset", "earliest"),
    ("queued.max.messages.kbytes", READ_AHEAD_KIB),
    ("fetch.max.bytes", "16777216"),
    ("fetch.wait.max.ms", "100"),
    ("socket.timeout.ms", "10000"),
    ("socket.keepalive.enable", "true"),
    ("statistics.interval.ms", "5000"),
];

/// Handles of a running receiver.
pub(super) struct RunningReceiver {
    context: Arc<GroupContext>,
    stop: CancellationToken,
    is_divided: bool,
    ended: Mutex<Option<oneshot::Receiver<()>>>,
    _stop_when_dropped: DropGuard,
}

impl KafkaReceiver {
    /// Starts it on the current runtime after querying the topics. `has_sessions` is true if
    /// evaluators judge sessions; `memory` is the quota of requests.
    ///
    /// # Errors
    /// No broker answers, or the topics would split traces.
    pub async fn start<S: RecordSink>(
        settings: Option<&KafkaReceiverSettings>,
        has_sessions: bool,
        sink: Arc<S>,
        memory: &Arc<MemoryQuota>,
        meter: &Meter,
    ) -> Result<Self, KafkaStartError> {
        let Some(settings) = settings.cloned() else { return Ok(Self::default()) };
        let looking = settings.clone();
        let looking = tokio::task::spawn_blocking(move || look(&looking, has_sessions));
        let (assignor, is_divided) = looking.await.unwrap_or_else(|_| {
            Err(KafkaStartError::Client("looking at the topics met a fault".to_owned()))
        })?;
        let metrics = KafkaMetrics::new(meter).of(&[]);
        let context = GroupContext {
            owned: Mutex::new(Ownership::default()),
            committing: Mutex::new(()),
            metrics: metrics.clone(),
            initial_offset: settings.initial_offset,
            sasl: settings.auth.sasl.clone(),
            revoked: Notify::new(),
            is_member: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            is_changed: AtomicBool::new(false),
        };
        let config = config_of(&settings, assignor);
        let consumer: BaseConsumer<GroupContext> =
            config.create_with_context(context).map_err(refused)?;
        consumer.subscribe(&settings.topics()).map_err(refused)?;
        let context = Arc::clone(consumer.context());
        let skips = Arc::new(SkipLog::new(metrics.clone()));
        let room = ChunkRoom::new(memory);
        let lane = || Lane {
            sink: Arc::clone(&sink),
            encoding: settings.encoding,
            room: Arc::clone(&room),
            metrics: metrics.clone(),
            skips: Arc::clone(&skips),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut lanes = Vec::new();
        for _ in 0..cores.min(LANES_MAX) {
            let (sender, chunks) = mpsc::unbounded_channel();
            tokio::spawn(lane().run(chunks));
            lanes.push(sender);
        }
        let stop = CancellationToken::new();
        tokio::spawn(drop_revoked(Arc::clone(&context), sink, stop.clone()));
        let poller = Poller::new(Arc::new(consumer), &settings, (lanes, room), skips, stop.clone());
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("kafka".to_owned()).spawn(move || {
            poller.run();
            // Fails only if no caller waits for it.
            let _ = end.send(());
        })?;
        let ended = Mutex::new(Some(ended));
        let _stop_when_dropped = stop.clone().drop_guard();
        Ok(Self {
            running: Some(RunningReceiver { context, stop, is_divided, ended, _stop_when_dropped }),
        })
    }

    /// Returns true if a topic has several partitions, so that no session is complete in one
    /// process.
    pub fn is_divided(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.is_divided)
    }

    /// Returns a probe that is true while the group counts this process as a member.
    pub fn works(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let context = self.running.as_ref().map(|running| Arc::clone(&running.context));
        move || {
            context.as_ref().is_none_or(|context| {
                context.is_member.load(Ordering::Acquire)
                    && !context.has_failed.load(Ordering::Acquire)
            })
        }
    }

    /// Stops reading, commits and leaves the group, at the latest when `no_more_time` completes.
    /// Unfinished work is retired: the next owner of its partition does it.
    pub async fn stop(&self, no_more_time: impl Future<Output = ()>) {
        let Some(running) = &self.running else { return };
        running.stop.cancel();
        let ended = running.ended.lock().take();
        let Some(ended) = ended else { return };
        tokio::select! {
            biased;
            _ = ended => {}
            () = no_more_time => running.context.owned.lock().revoke_all(),
        }
    }
}

/// Drops the traces of revoked partitions.
async fn drop_revoked<S: RecordSink>(
    context: Arc<GroupContext>,
    sink: Arc<S>,
    stop: CancellationToken,
) {
    while stop.run_until_cancelled(context.revoked.notified()).await.is_some() {
        sink.drop_revoked().await;
    }
}

fn refused(error: KafkaError) -> KafkaStartError {
    KafkaStartError::Client(error.to_string())
}

fn config_of(settings: &KafkaReceiverSettings, assignor: Assignor) -> ClientConfig {
    let mut config = client_config(&settings.cluster());
    for (name, value) in FIXED {
        config.set(name, value);
    }
    config
        .set("group.id", &settings.group_id)
        .set("partition.assignment.strategy", <&str>::from(assignor))
        .set("session.timeout.ms", settings.session_timeout.as_ms().to_string())
        .set("heartbeat.interval.ms", settings.heartbeat_interval.as_ms().to_string());
    if let Some(name) = &settings.group_instance_id {
        config.set("group.instance.id", name);
    }
    config
}

/// Queries the topics on a blocking thread; returns true as well if one has several partitions.
fn look(
    settings: &KafkaReceiverSettings,
    has_sessions: bool,
) -> Result<(Assignor, bool), KafkaStartError> {
    let unreachable = |error: KafkaError| {
        let brokers = settings.brokers.join(", ");
        KafkaStartError::Unreachable { brokers, error: error.to_string() }
    };
    let context = SignIn(settings.auth.sasl.clone());
    let client: BaseConsumer<SignIn> =
        client_config(&settings.cluster()).create_with_context(context).map_err(refused)?;
    let mut counts = Vec::new();
    for topic in settings.topics() {
        let metadata = client.fetch_metadata(Some(topic), START_WAIT).map_err(unreachable)?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let count = found.filter(|it| it.error().is_none()).map_or(0, |it| it.partitions().len());
        counts.push((topic, count));
    }
    let is_divided = counts.iter().any(|(_, count)| *count > 1);
    Ok((assignor(settings, &counts, has_sessions)?, is_divided))
}
