//! Group membership: the client's callbacks on assigned and revoked partitions.
//!
//! Everything except the regular commits runs on the poller's thread, so nothing is read while an
//! assignment changes. A commit carries the generation of the membership; brokers refuse those of
//! expelled members.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::Notify;

use super::commit::list_of;
use super::metrics::KafkaMetrics;
use super::ownership::{Ownership, Partition, Position};
use super::settings::InitialOffset;
use crate::settings::SaslSettings;
use crate::token;
use spanscore_base::panics::{Panicked, caught};

/// Longest wait for the brokers' answer while an assignment changes.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Number of queries of the group's committed positions, after which they count as unknown.
const QUERIES: u32 = 3;
/// Pause after a query without a full answer.
const QUERY_PAUSE: Duration = Duration::from_millis(500);

/// State shared by the poller and the client's callbacks.
pub(super) struct GroupContext {
    pub(super) owned: Mutex<Ownership>,
    /// Held during a commit.
    pub(super) committing: Mutex<()>,
    pub(super) metrics: KafkaMetrics,
    pub(super) initial_offset: InitialOffset,
    pub(super) sasl: Option<SaslSettings>,
    /// Signals that partitions were revoked, so that their traces are dropped.
    pub(super) revoked: Notify,
    /// True while the group counts this process as a member.
    pub(super) is_member: AtomicBool,
    /// True after a fatal error of the client.
    pub(super) has_failed: AtomicBool,
    /// True if the assignment has changed since the poller's last check.
    pub(super) is_changed: AtomicBool,
}

/// Position of a group in a partition.
enum GroupPlace {
    /// Its last commit.
    Committed(Position),
    /// The group has never read the partition.
    New,
    /// The brokers did not answer.
    Unknown,
}

impl GroupContext {
    /// Takes ownership of partitions. A partition new to the group is committed at its start, so
    /// that a crash before the next commit skips nothing. A partition with an unknown position is
    /// read from where the client continues, and none of its records counts as finished.
    fn assign(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        self.metrics.rebalances.add("assigned", 1);
        let mut begun = Vec::new();
        for (partition, standing) in self.places(consumer, list) {
            let known = match standing {
                GroupPlace::Committed(position) => Some(position),
                GroupPlace::New => {
                    let first = self.first_offset(consumer, &partition);
                    let known = first.map(|offset| Position { offset, metadata: String::new() });
                    begun.extend(known.clone().map(|position| (partition.clone(), position)));
                    known
                }
                GroupPlace::Unknown => None,
            };
            self.owned.lock().assign(partition, known);
        }
        if let Some(list) = list_of(begun) {
            self.commit_list(consumer, &list);
        }
        self.is_member.store(true, Ordering::Release);
        self.changed();
    }

    /// Queries the group's positions in partitions, repeatedly if the brokers do not answer.
    fn places(
        &self,
        consumer: &BaseConsumer<Self>,
        list: &TopicPartitionList,
    ) -> Vec<(Partition, GroupPlace)> {
        let mut places = HashMap::new();
        for element in list.elements() {
            places.insert(partition_of(element.topic(), element.partition()), GroupPlace::Unknown);
        }
        for _ in 0..QUERIES {
            let answer = consumer.committed_offsets(list.clone(), ANSWER_WAIT);
            let told = answer.as_ref().map(TopicPartitionList::elements).unwrap_or_default();
            for element in told.iter().filter(|element| element.error().is_ok()) {
                let standing = match element.offset() {
                    Offset::Offset(offset) => GroupPlace::Committed(self.position(offset, element)),
                    _ => GroupPlace::New,
                };
                places.insert(partition_of(element.topic(), element.partition()), standing);
            }
            let partitions = places.values().filter(|it| matches!(it, GroupPlace::Unknown)).count();
            if partitions == 0 {
                break;
            }
            let error = answer.err().map(|error| error.to_string());
            tracing::warn!(partitions, error, "the brokers did not report the group's positions");
            std::thread::sleep(QUERY_PAUSE);
        }
        places.into_iter().collect()
    }

    /// Returns the position of an element. Metadata of others may not be text, on which the client
    /// panics: it then counts as empty.
    pub(super) fn position(&self, offset: i64, element: &TopicPartitionListElem<'_>) -> Position {
        let metadata = caught(|| element.metadata().to_owned()).unwrap_or_else(|Panicked| {
            self.metrics.foreign_metadata.add(1);
            tracing::warn!(
                topic = element.topic(),
                partition = element.partition(),
                offset,
                "the group's position has metadata of another program; it is read from there"
            );
            String::new()
        });
        Position { offset, metadata }
    }

    fn first_offset(&self, consumer: &BaseConsumer<Self>, partition: &Partition) -> Option<i64> {
        let marks = consumer.fetch_watermarks(&partition.topic, partition.number, ANSWER_WAIT);
        let (first, end) = marks.ok()?;
        Some(match self.initial_offset {
            InitialOffset::Earliest => first,
            InitialOffset::Latest => end,
        })
    }

    /// Ends the ownership of partitions: commits the positions of unfinished work, then drops that
    /// work.
    fn revoke(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let is_lost = consumer.assignment_lost();
        self.metrics.rebalances.add(if is_lost { "lost" } else { "revoked" }, 1);
        if is_lost {
            // Other processes may be reading already: a commit would disturb them.
            self.is_member.store(false, Ordering::Release);
            tracing::warn!("the group has given this process's partitions to others");
        } else {
            self.commit(consumer);
        }
        let mut owned = self.owned.lock();
        for element in list.elements() {
            owned.revoke(&partition_of(element.topic(), element.partition()));
        }
        drop(owned);
        self.changed();
        self.revoked.notify_one();
    }

    /// Gives up all partitions without a commit after a fatal error of the client.
    pub(super) fn fail(&self, error: &KafkaError) {
        self.metrics.errors.add("fatal", 1);
        self.has_failed.store(true, Ordering::Release);
        self.owned.lock().revoke_all();
        self.changed();
        self.revoked.notify_one();
        tracing::error!(%error, "the client of Kafka has failed; nothing more is read");
    }

    fn changed(&self) {
        self.metrics.partitions.record(self.owned.lock().len() as u64);
        self.is_changed.store(true, Ordering::Release);
    }
}

pub(super) fn partition_of(topic: &str, number: i32) -> Partition {
    Partition { topic: topic.into(), number }
}

impl ConsumerContext for GroupContext {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => self.assign(consumer, list),
            Rebalance::Revoke(list) => self.revoke(consumer, list),
            Rebalance::Error(error) => {
                self.metrics.errors.add("other", 1);
                tracing::warn!(%error, "the group could not divide its partitions");
            }
        }
    }
}

impl ClientContext for GroupContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, part: &str, text: &str) {
        match level {
            RDKafkaLogLevel::Debug | RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => {
                tracing::debug!(part, "librdkafka: {text}");
            }
            _ => tracing::warn!(part, "librdkafka: {text}"),
        }
    }

    fn stats(&self, statistics: Statistics) {
        let mut owned = self.owned.lock();
        for (topic, shown) in &statistics.topics {
            for (number, partition) in &shown.partitions {
                if let Some(state) = owned.get_mut(&partition_of(topic, *number)) {
                    state.end = partition.hi_offset.max(partition.ls_offset);
                }
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let kind = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::BrokerTransportFailure) => {
                "brokers_down"
            }
            Some(RDKafkaErrorCode::Authentication) => "sign_in",
            _ => "other",
        };
        self.metrics.errors.add(kind, 1);
        tracing::debug!(%error, reason, "the client of Kafka met an error");
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        token::of(self.sasl.as_ref())
    }
}

/// Context of a client that only signs in.
pub(super) struct SignIn(pub(super) Option<SaslSettings>);

impl ConsumerContext for SignIn {}

impl ClientContext for SignIn {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, _: RDKafkaLogLevel, part: &str, text: &str) {
        tracing::debug!(part, "librdkafka: {text}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(%error, reason, "the client of Kafka met an error");
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        token::of(self.0.as_ref())
    }
}
