//! Commits of positions, and refused commits.

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::group::{GroupContext, partition_of};
use super::metrics::CommitFailure;
use super::ownership::{Partition, Position};

impl GroupContext {
    /// Commits the changed positions and waits for the answer. Refused ones are committed with the
    /// next.
    pub(super) fn commit(&self, consumer: &BaseConsumer<Self>) {
        // One at a time, so that no commit of a revoked partition follows its last one.
        let _one = self.committing.lock();
        let (positions, cut) = self.owned.lock().uncommitted();
        if cut > 0 {
            self.metrics.cut_positions.add(cut);
        }
        if let Some(list) = list_of(positions) {
            self.commit_list(consumer, &list);
        }
    }

    pub(super) fn commit_list(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        // The client reports the result of a commit only to a waiting caller.
        match consumer.commit(list, CommitMode::Sync) {
            Ok(()) => self.note_committed(list),
            Err(error) => self.note_failed_commit(&error, list),
        }
    }

    fn note_committed(&self, list: &TopicPartitionList) {
        let mut owned = self.owned.lock();
        for element in list.elements() {
            let Some(position) = element.offset().to_raw().filter(|_| element.error().is_ok())
            else {
                continue;
            };
            let position = self.position(position, &element);
            owned.committed(&partition_of(element.topic(), element.partition()), position);
        }
    }

    /// Counts a failed commit. The client fails all of it if the brokers refuse a part.
    fn note_failed_commit(&self, error: &KafkaError, list: &TopicPartitionList) {
        let failure = failure_of(error);
        self.metrics.commit_failures.add(failure.into_str(), 1);
        let reason = failure.into_str();
        tracing::warn!(%error, reason, "positions in Kafka were not committed; tried again");
        let mut owned = self.owned.lock();
        if failure == CommitFailure::MetadataTooLarge {
            owned.halve_metadata();
        }
        for element in list.elements() {
            owned.not_committed(&partition_of(element.topic(), element.partition()));
        }
    }
}

/// Returns a list of partitions with their positions; `None` for none.
pub(super) fn list_of(positions: Vec<(Partition, Position)>) -> Option<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(positions.len());
    for (Partition { topic, number }, position) in &positions {
        let mut element = list.add_partition(topic, *number);
        element.set_metadata(&position.metadata);
        // Fails only for negative offsets, which no record has.
        let _ = element.set_offset(Offset::Offset(position.offset));
    }
    (list.count() > 0).then_some(list)
}

/// Classifies the error of a commit.
fn failure_of(error: &KafkaError) -> CommitFailure {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(
            Code::UnknownMemberId
            | Code::IllegalGeneration
            | Code::FencedInstanceId
            | Code::Fenced
            | Code::Fatal,
        ) => CommitFailure::NoMember,
        Some(Code::RebalanceInProgress) => CommitFailure::Rebalance,
        Some(
            Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::OperationTimedOut
            | Code::TimedOutQueue
            | Code::RequestTimedOut
            | Code::WaitingForCoordinator
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator,
        ) => CommitFailure::NoCoordinator,
        Some(Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed) => {
            CommitFailure::NotAllowed
        }
        Some(Code::OffsetMetadataTooLarge) => CommitFailure::MetadataTooLarge,
        _ => CommitFailure::Other,
    }
}
