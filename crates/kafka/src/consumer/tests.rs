//! Tests of the receiver against the client's mock cluster.

mod sink;

use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::FromClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use self::sink::{TestSink, records_of};
use super::*;
use crate::{
    GROUP_HEADER, InitialOffset, KafkaReceiverSettings, RecordEncoding, SIGNAL_HEADER,
    TopicSettings,
};
use spanscore_base::model::{Claims, ClientGroup, MemoryQuota, SpanBatch};
use spanscore_base::settings::HumanDuration;
use spanscore_net::metrics::unread_meter;

/// Longest wait for an expected event on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
const TOPIC: &str = "spans";
/// Bytes of a request with one item.
const SMALL_BYTES: usize = 24;
/// Bytes of a large request.
const LARGE_BYTES: usize = 800_004;

/// Mock cluster with one topic, and a receiver's settings for it.
struct Broker {
    cluster: MockCluster<'static, DefaultProducerContext>,
    settings: KafkaReceiverSettings,
    producer: BaseProducer,
}

impl Broker {
    fn start(partitions: i32) -> Self {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic(TOPIC, partitions, 1).unwrap();
        let brokers = cluster.bootstrap_servers();
        let topics = TopicSettings { topics: vec![TOPIC.to_owned()] };
        let settings = KafkaReceiverSettings {
            brokers: vec![brokers.clone()],
            traces: topics.clone(),
            logs: topics,
            initial_offset: InitialOffset::Earliest,
            session_timeout: HumanDuration::from_secs(6),
            heartbeat_interval: HumanDuration::from_millis(500),
            ..KafkaReceiverSettings::default()
        };
        let producer = ClientConfig::new().set("bootstrap.servers", brokers).clone();
        let producer = BaseProducer::from_config(&producer).unwrap();
        Self { cluster, settings, producer }
    }

    /// Writes a record to a partition.
    fn write(&self, partition: i32, key: &str, signal: Option<&str>, payload: &[u8]) {
        let headers = signal.map(|signal| (SIGNAL_HEADER, signal));
        self.write_with(partition, key, headers.as_slice(), payload);
    }

    fn write_with(&self, partition: i32, key: &str, headers: &[(&str, &str)], payload: &[u8]) {
        let headers = headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(*value) })
        });
        let record = BaseRecord::to(TOPIC).partition(partition).key(key).payload(payload);
        self.producer.send(record.headers(headers)).map_err(|(error, _)| error).unwrap();
        self.producer.flush(PATIENCE).unwrap();
    }

    async fn receiver(&self, sink: &Arc<TestSink>) -> KafkaReceiver {
        let sink = Arc::clone(sink);
        let memory = MemoryQuota::new("requests", 64 << 20);
        let settings = Some(&self.settings);
        KafkaReceiver::start(settings, false, sink, &memory, &unread_meter()).await.unwrap()
    }

    /// Waits until the group's position in a partition has this value.
    fn wait_for_position(&self, partition: i32, position: i64) {
        let config = ClientConfig::new()
            .set("bootstrap.servers", &self.settings.brokers[0])
            .set("group.id", &self.settings.group_id)
            .clone();
        let client: BaseConsumer = config.create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition(TOPIC, partition);
        let started = std::time::Instant::now();
        loop {
            let found = client.committed_offsets(list.clone(), PATIENCE).unwrap();
            let found = found.find_partition(TOPIC, partition).unwrap().offset();
            if found == Offset::Offset(position) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{found:?} instead of {position}");
        }
    }
}

/// Encodes a request with one span, or log record, of a trace.
fn request(trace: u8, signal: Signal) -> Vec<u8> {
    let field = |number: u8, part: &[u8]| [&[number << 3 | 2, part.len() as u8], part].concat();
    let id = field(if signal == Signal::Logs { 9 } else { 1 }, &[trace; 16]);
    field(1, &field(2, &field(2, &id)))
}

fn key(trace: u8) -> String {
    format!("{trace:02x}").repeat(16)
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_follow_the_oldest_unfinished_work() {
    let broker = Broker::start(2);
    for trace in 0..3 {
        broker.write(0, &key(trace), None, &request(trace, Signal::Traces));
    }
    broker.write(1, &key(9), Some("logs"), &request(9, Signal::Logs));
    let sink = TestSink::open();
    let receiver = broker.receiver(&sink).await;
    sink.wait_for(4).await;
    broker.wait_for_position(0, 0);
    let mut signals: Vec<_> = sink.taken().iter().map(|it| it.signal.as_str()).collect();
    signals.sort_unstable();
    signals.dedup();
    assert_eq!(signals, ["logs", "traces"]);
    sink.forget();
    broker.wait_for_position(0, 3);
    broker.wait_for_position(1, 1);
    broker.write(0, &key(5), None, &request(5, Signal::Traces));
    sink.wait_for(5).await;
    assert!(receiver.works()());
    receiver.stop(std::future::pending()).await;
    broker.wait_for_position(0, 3);
    assert!(sink.taken().iter().all(is_retired));
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_records_are_skipped_and_pass_nothing_else_by() {
    let broker = Broker::start(1);
    let whole = request(1, Signal::Traces);
    let records = [&whole[..], &whole[..whole.len() - 1], b"", &whole[..], &[0xff; 40][..]];
    for record in records {
        broker.write(0, &key(1), None, record);
    }
    broker.write(0, &key(1), Some("metrics"), &whole);
    broker.write(0, "tenant", None, &whole);
    let sink = TestSink::open();
    let _receiver = broker.receiver(&sink).await;
    sink.wait_for(3).await;
    sink.forget();
    broker.wait_for_position(0, 7);
    assert_eq!(sink.records(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_two_groups_share_no_request_and_one_of_an_unclear_group_is_skipped() {
    let broker = Broker::start(1);
    let [one, two] = ["one", "two"].map(ClientGroup::named);
    let whole = request(1, Signal::Traces);
    // All of one trace id.
    for _ in 0..3 {
        for group in [one, two] {
            let headers = [(SIGNAL_HEADER, "traces"), (GROUP_HEADER, &group.to_hex())];
            broker.write_with(0, &key(1), &headers, &whole);
        }
        broker.write(0, &key(1), None, &whole);
        broker.write_with(0, &key(1), &[(GROUP_HEADER, "one")], &whole);
    }
    let sink = TestSink::open();
    let _receiver = broker.receiver(&sink).await;
    sink.wait_for(9).await;
    for group in [one, two, ClientGroup::default()] {
        let taken = sink.taken();
        let of_group = taken.iter().filter(|fetched| fetched.group == group);
        assert_eq!(of_group.map(|fetched| records_of(&fetched.request)).sum::<usize>(), 3);
    }
    sink.forget();
    broker.wait_for_position(0, 12);
    assert_eq!(sink.records(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_in_json_tell_their_signal() {
    let mut broker = Broker::start(1);
    broker.settings.encoding = RecordEncoding::OtlpJson;
    for record in [r#"{"resourceSpans":[{}]}"#, r#"{"resourceLogs":[{}]}"#, "{}", "no json"] {
        broker.write(0, &key(1), None, record.as_bytes());
    }
    let sink = TestSink::open();
    let _receiver = broker.receiver(&sink).await;
    sink.wait_for(2).await;
    let signals: Vec<_> = sink.taken().iter().map(|it| it.signal).collect();
    assert_eq!(signals, [Signal::Traces, Signal::Logs]);
    sink.forget();
    broker.wait_for_position(0, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_pause_without_room_and_go_on_with_it() {
    // The mock holds five megabytes of a partition.
    let broker = Broker::start(6);
    // Each in an unknown field.
    let mut large = vec![0x7a, 0x80, 0xea, 0x30];
    large.resize(LARGE_BYTES, 0);
    let count = 36;
    for number in 0..count {
        broker.write(number % 6, &key(1), None, &large);
    }
    let sink = TestSink::closed();
    let memory = MemoryQuota::new("requests", 64 << 20);
    let own = Arc::clone(&sink);
    let settings = Some(&broker.settings);
    let meter = unread_meter();
    let receiver = KafkaReceiver::start(settings, false, own, &memory, &meter).await.unwrap();
    sink.wait_for_refusals(20).await;
    assert!(receiver.works()(), "polling goes on, so it stays a member");
    assert!(memory.held() < 20 << 20, "{}", memory.held());
    sink.make_room();
    sink.wait_for(count as usize).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_member_takes_over_from_the_oldest_unfinished_record() {
    let broker = Broker::start(4);
    for partition in 0..4 {
        for trace in 0..3 {
            broker.write(partition, &key(trace), None, &request(trace, Signal::Traces));
        }
    }
    let first = TestSink::open();
    let _first = broker.receiver(&first).await;
    first.wait_for(12).await;
    let second = TestSink::open();
    let other = broker.receiver(&second).await;
    // Its partitions are read from the first record on: none is finished.
    second.wait_for(3).await;
    first.wait_for_drop().await;
    let moved = |sink: &TestSink| {
        let taken = sink.taken();
        let moved = taken.iter().filter(|it| is_retired(it));
        moved.map(|it| records_of(&it.request)).sum::<usize>()
    };
    let moved = moved(&first);
    assert!((3..12).contains(&moved) && moved % 3 == 0, "{moved} of 12 records moved");
    other.stop(std::future::pending()).await;
    first.wait_for(12 + moved).await;
}

fn is_retired(fetched: &FetchedRequest) -> bool {
    let (claims, traces) = match &fetched.claims {
        RecordClaims::One(claim) => (claim.clone().into(), None),
        RecordClaims::ByTrace(by_trace) => (Claims::default(), Some(Arc::clone(by_trace))),
    };
    SpanBatch { claims, claims_by_trace: traces, ..SpanBatch::default() }.is_retired()
}

#[tokio::test(flavor = "multi_thread")]
async fn group_that_reads_from_the_end_begins_there_even_if_it_crashes_at_once() {
    let mut broker = Broker::start(1);
    broker.settings.initial_offset = InitialOffset::Latest;
    broker.write(0, &key(1), None, &request(1, Signal::Traces));
    let sink = TestSink::open();
    let receiver = broker.receiver(&sink).await;
    broker.wait_for_position(0, 1);
    broker.write(0, &key(2), None, &request(2, Signal::Traces));
    sink.wait_for(1).await;
    assert!(sink.taken()[0].request.ends_with(&[2; 16]));
    receiver.stop(std::future::pending()).await;
    let again = TestSink::open();
    let _receiver = broker.receiver(&again).await;
    again.wait_for(1).await;
    assert!(again.taken()[0].request.ends_with(&[2; 16]));
}

#[tokio::test(flavor = "multi_thread")]
async fn position_that_brokers_do_not_tell_at_first_skips_nothing() {
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    // Answered by a later query, and by none.
    for refusals in [1, 3] {
        let mut broker = Broker::start(1);
        broker.settings.initial_offset = InitialOffset::Latest;
        let sink = TestSink::open();
        let receiver = broker.receiver(&sink).await;
        broker.wait_for_position(0, 0);
        receiver.stop(std::future::pending()).await;
        broker.write(0, &key(1), None, &request(1, Signal::Traces));
        broker.cluster.request_errors(RDKafkaApiKey::OffsetFetch, &vec![refused; refusals]);
        let _receiver = broker.receiver(&sink).await;
        sink.wait_for(1).await;
        sink.forget();
        broker.wait_for_position(0, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_that_brokers_refuse_are_committed_again() {
    let not_allowed = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    // The commit at the start, and later ones.
    for (refused, is_begun) in [
        (not_allowed, false),
        (not_allowed, true),
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS, true),
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE, true),
    ] {
        let broker = Broker::start(1);
        let sink = TestSink::open();
        let refuse = || broker.cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[refused; 3]);
        if !is_begun {
            refuse();
        }
        let _receiver = broker.receiver(&sink).await;
        broker.wait_for_position(0, 0);
        if is_begun {
            refuse();
        }
        broker.write(0, &key(1), None, &request(1, Signal::Traces));
        sink.wait_for(1).await;
        sink.forget();
        broker.wait_for_position(0, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn member_whose_commit_the_group_does_not_know_reads_again_what_was_open() {
    for refused in [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
    ] {
        let broker = Broker::start(1);
        let sink = TestSink::open();
        let receiver = broker.receiver(&sink).await;
        broker.wait_for_position(0, 0);
        broker.cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[refused]);
        broker.write(0, &key(1), None, &request(1, Signal::Traces));
        sink.wait_for(2).await;
        let retired: Vec<bool> = sink.taken().iter().map(is_retired).collect();
        assert_eq!(retired, [true, false]);
        broker.wait_for_position(0, 0);
        sink.forget();
        broker.wait_for_position(0, 1);
        assert!(receiver.works()());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_that_was_paused_when_it_went_is_read_once_it_is_back() {
    let broker = Broker::start(6);
    let mut large = vec![0x7a, 0x80, 0xea, 0x30];
    large.resize(LARGE_BYTES, 0);
    for number in 0..36 {
        broker.write(number % 6, &key(1), None, &large);
    }
    let sink = TestSink::closed();
    let receiver = broker.receiver(&sink).await;
    sink.wait_for_refusals(20).await;
    let other = TestSink::open();
    let second = broker.receiver(&other).await;
    sink.wait_for_drop().await;
    sink.make_room();
    other.wait_for(1).await;
    second.stop(std::future::pending()).await;
    for trace in 0..6 {
        broker.write(trace.into(), &key(trace), None, &request(trace, Signal::Traces));
    }
    for trace in 0..6 {
        sink.wait_for_end(&[trace; 16]).await;
    }
    receiver.stop(std::future::pending()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn start_is_refused_with_the_reason() {
    let broker = Broker::start(2);
    for (has_sessions, topic, part) in
        [(true, TOPIC, "has 2 partitions"), (false, "other", "there is no topic `other`")]
    {
        let mut settings = broker.settings.clone();
        settings.logs.topics = vec![topic.to_owned()];
        let memory = MemoryQuota::new("requests", 1 << 20);
        let sink = TestSink::open();
        // The mock creates any requested topic, unless told not to.
        let unknown = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        broker.cluster.topic_error("other", unknown).unwrap();
        let meter = unread_meter();
        let started = KafkaReceiver::start(Some(&settings), has_sessions, sink, &memory, &meter);
        let error = started.await.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(part), "{error}");
    }
}
