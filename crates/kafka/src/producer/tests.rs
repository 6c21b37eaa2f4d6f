//! Tests of the producer against librdkafka's mock brokers.
#![cfg(feature = "client")]

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message as _};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{Offset, TopicPartitionList};
use tokio::time::{Instant, timeout};

use super::*;
use crate::{ClusterSettings, SIGNAL_HEADER, client_config};
use spanscore_base::settings::HumanDuration;

const TOPIC: &str = "traces";
/// Longest wait for an expected event.
const SOON: Duration = Duration::from_secs(30);

struct Fixture {
    cluster: MockCluster<'static, DefaultProducerContext>,
    settings: ClusterSettings,
    producer: Producer,
}

impl Fixture {
    fn start(settings: ProducerSettings, timeout: Duration) -> Self {
        let cluster = MockCluster::new(1).expect("mock brokers");
        cluster.create_topic(TOPIC, 4, 1).expect("a topic");
        let brokers = vec![cluster.bootstrap_servers()];
        let cluster_settings = ClusterSettings { brokers, ..ClusterSettings::default() };
        let producer = Producer::start(&cluster_settings, &settings, TOPIC, timeout);
        Self { cluster, settings: cluster_settings, producer: producer.expect("a producer") }
    }

    /// Waits for a state of the brokers.
    async fn wait_for(&self, wanted: impl FnMut(&BrokerState) -> bool) {
        let mut states = self.producer.shared.state.subscribe();
        let waited = timeout(SOON, states.wait_for(wanted)).await;
        waited.expect("the state changes in time").expect("the producer lives");
    }

    async fn send(&self, key: u8, bytes: usize) -> Result<(), ProduceError> {
        let messages = [message(key, bytes)];
        self.send_all(&messages).await.remove(0)
    }

    async fn send_all(&self, messages: &[Message]) -> Vec<Result<(), ProduceError>> {
        let sending = self.producer.send_all(messages);
        let Ok(sent) = timeout(SOON, sending).await else { panic!("no answer in {SOON:?}") };
        sent
    }

    /// Reads this many messages from the beginning: partition, key, header and size of each.
    fn read(&self, count: usize) -> Vec<(i32, Vec<u8>, Option<String>, usize)> {
        let mut config = client_config(&self.settings);
        let consumer: BaseConsumer = config.set("group.id", "test").create().expect("a consumer");
        let mut all = TopicPartitionList::new();
        for partition in 0..4 {
            let from = all.add_partition_offset(TOPIC, partition, Offset::Beginning);
            from.expect("a partition");
        }
        consumer.assign(&all).expect("assigned");
        let mut found = Vec::new();
        while found.len() < count {
            let message = consumer.poll(SOON).expect("a message in time").expect("no error");
            let header = message.headers().and_then(|headers| headers.try_get(0)).map(|header| {
                let value = String::from_utf8_lossy(header.value.unwrap_or_default());
                format!("{}={value}", header.key)
            });
            let key = message.key().unwrap_or_default().to_vec();
            found.push((message.partition(), key, header, message.payload_len()));
        }
        found.sort();
        found
    }
}

fn message(key: u8, bytes: usize) -> Message {
    let key = key_of(TraceId([key; 16]));
    let headers = vec![(SIGNAL_HEADER, "traces".to_owned())];
    Message { key, headers, payload: vec![7; bytes].into() }
}

fn is_here(state: &BrokerState) -> bool {
    matches!(state, BrokerState::Here { partitions: 4 })
}

fn is_away(state: &BrokerState) -> bool {
    matches!(state, BrokerState::Away { .. })
}

#[tokio::test]
async fn messages_of_one_trace_go_to_one_partition_with_key_and_header() {
    let fixture = Fixture::start(ProducerSettings::default(), SOON);
    for key in [1, 2, 3, 1, 2, 3] {
        assert_eq!(fixture.send(key, 10).await, Ok(()));
    }
    let read = fixture.read(6);
    for pair in read.chunks(2) {
        assert_eq!(pair[0], pair[1]);
        assert_eq!(pair[0].2.as_deref(), Some("spanscore-signal=traces"));
    }
    let mut keys: Vec<_> = read.iter().map(|it| it.1.clone()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys, [1, 2, 3].map(|key| format!("{:02x}", key).repeat(16).into_bytes()));
}

#[tokio::test]
async fn keys_go_to_the_partitions_that_other_clients_choose() {
    // As the murmur2 of Kafka's clients and the FNV-1a of Sarama have them for these keys.
    for (partitioner, key, expected) in [
        (Partitioner::Murmur2, "01", murmur2(&"01".repeat(16)) % 4),
        (Partitioner::Murmur2, "02", murmur2(&"02".repeat(16)) % 4),
        (Partitioner::Fnv1a, "01", fnv1a(&"01".repeat(16)) % 4),
        (Partitioner::Fnv1a, "02", fnv1a(&"02".repeat(16)) % 4),
    ] {
        let settings = ProducerSettings { partitioner, ..ProducerSettings::default() };
        let fixture = Fixture::start(settings, SOON);
        fixture.send(key.parse().expect("a number"), 1).await.expect("taken");
        assert_eq!(fixture.read(1)[0].0, expected, "{partitioner:?} {key}");
    }
}

/// Kafka's murmur2 of a key, without its sign.
fn murmur2(key: &str) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    for four in key.as_bytes().chunks_exact(4) {
        let mut k = u32::from_le_bytes([four[0], four[1], four[2], four[3]]).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    ((hash ^ (hash >> 15)) & 0x7fff_ffff) as i32
}

/// Sarama's hash of a key.
fn fnv1a(key: &str) -> i32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    (key.as_bytes().iter().fold(0x811c_9dc5, step) as i32).wrapping_abs()
}

#[tokio::test]
async fn faults_of_the_brokers_are_told_apart() {
    use RDKafkaRespErr as E;
    let fixture = Fixture::start(ProducerSettings::default(), SOON);
    fixture.wait_for(is_here).await;
    let too_large = |bytes, limit| Err(ProduceError::TooLarge { bytes, limit });
    let own = too_large(1_000_001, "`producer.max_message_bytes`");
    assert_eq!(fixture.send(1, 1_000_001).await, own);
    assert_eq!(fixture.send(1, 1_000_000).await, Ok(()));
    let check = async |faults: &[RDKafkaRespErr], expected: &str| {
        fixture.cluster.request_errors(RDKafkaApiKey::Produce, faults);
        let sent = fixture.send(1, 10).await;
        let found = match &sent {
            Ok(()) => "taken",
            Err(ProduceError::TooLarge { .. }) => "too large",
            Err(ProduceError::Refused(_)) => "refused",
            Err(ProduceError::Away(_)) => "away",
            Err(ProduceError::QueueFull) => "queue full",
        };
        assert_eq!(found, expected, "{faults:?}: {sent:?}");
    };
    // The client retries these itself.
    check(&[E::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION], "taken").await;
    check(&[E::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT], "taken").await;
    check(&[E::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE; 2], "too large").await;
    check(&[E::RD_KAFKA_RESP_ERR_INVALID_RECORD], "refused").await;
    check(&[E::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED], "away").await;
    // The client stays with that until the probe has queried the topic again.
    let trying_again = async { while fixture.send(1, 10).await.is_err() {} };
    timeout(SOON, trying_again).await.expect("taken again");
}

#[tokio::test]
async fn messages_that_are_too_large_together_are_sent_by_themselves() {
    let linger = HumanDuration::from_millis(200);
    let settings = ProducerSettings { linger, ..ProducerSettings::default() };
    let fixture = Fixture::start(settings, SOON);
    fixture.wait_for(is_here).await;
    let check = async |answers: usize, lost: usize| {
        let fault = RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
        fixture.cluster.request_errors(RDKafkaApiKey::Produce, &vec![fault; answers]);
        let sent = fixture.send_all(&[1, 1, 1].map(|key| message(key, 10))).await;
        let is_lost = |it: &&Result<_, _>| matches!(it, Err(ProduceError::TooLarge { .. }));
        assert_eq!(sent.iter().filter(is_lost).count(), lost, "{answers}: {sent:?}");
        assert_eq!(sent.iter().filter(|it| it.is_ok()).count(), 3 - lost, "{answers}: {sent:?}");
    };
    // The first answer is for all three, each further one for one of them.
    check(0, 0).await;
    check(1, 0).await;
    check(2, 1).await;
    check(4, 3).await;
    assert_eq!(fixture.read(8).len(), 8);
}

#[tokio::test]
async fn small_messages_fill_the_queue_too() {
    let settings = ProducerSettings { queue_mib: 1, ..ProducerSettings::default() };
    let fixture = Fixture::start(settings, Duration::from_secs(2));
    let fills = async {
        loop {
            let full = |it: &Result<_, _>| *it == Err(ProduceError::QueueFull);
            fixture.cluster.broker_round_trip_time(1, Duration::ZERO).expect("fast");
            fixture.wait_for(is_here).await;
            // The brokers answer too late for all waits. A query in flight at the change may return
            // as if they were unavailable: then it is retried.
            fixture.cluster.broker_round_trip_time(1, SOON).expect("slow");
            if fixture.send_all(&vec![message(1, 1); 1100]).await.iter().any(full) {
                break;
            }
        }
    };
    timeout(3 * SOON, fills).await.expect("the queue is full");
}

#[tokio::test]
async fn senders_are_refused_at_once_while_the_brokers_are_away() {
    let fixture = Fixture::start(ProducerSettings::default(), SOON);
    assert_eq!(fixture.send(1, 10).await, Ok(()));
    fixture.cluster.broker_down(1).expect("down");
    // The first one may wait for the probe, the others do not.
    assert!(matches!(fixture.send(1, 10).await, Err(ProduceError::Away(_))));
    fixture.wait_for(is_away).await;
    let began = Instant::now();
    for _ in 0..100 {
        assert!(matches!(fixture.send(1, 10).await, Err(ProduceError::Away(_))));
    }
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    fixture.cluster.broker_up(1).expect("up");
    fixture.wait_for(is_here).await;
    assert_eq!(fixture.send(1, 10).await, Ok(()));
}

#[tokio::test]
async fn a_topic_that_cannot_be_used_is_named() {
    let fixture = Fixture::start(ProducerSettings::default(), SOON);
    let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    fixture.cluster.topic_error(TOPIC, denied).expect("an error");
    fixture.producer.shared.probe();
    fixture.wait_for(is_away).await;
    let Err(ProduceError::Away(why)) = fixture.send(1, 10).await else { panic!("it was taken") };
    assert!(why.contains("topic `traces`"), "{why}");
}

#[tokio::test]
async fn a_full_queue_is_waited_for_without_blocking_and_then_told() {
    let settings = ProducerSettings { queue_mib: 1, ..ProducerSettings::default() };
    let fixture = Fixture::start(settings, Duration::from_secs(2));
    fixture.wait_for(is_here).await;
    // The brokers answer too late for all waits.
    fixture.cluster.broker_round_trip_time(1, SOON).expect("slow");
    let send = || fixture.send(1, 400_000);
    let (first, second, third, fourth) = tokio::join!(send(), send(), send(), send());
    let outcomes = [first, second, third, fourth];
    let full = outcomes.iter().filter(|it| **it == Err(ProduceError::QueueFull)).count();
    let away = outcomes.iter().filter(|it| matches!(it, Err(ProduceError::Away(_)))).count();
    assert!(full + away == 4 && away >= 2, "{outcomes:?}");
}
