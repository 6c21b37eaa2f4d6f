//! From topic to topic: records are read and judged, and their evaluations written.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use spanscore_base::model::{MemoryQuota, TraceId};
use spanscore_base::otlp::Signal;
use spanscore_kafka::{
    ClusterSettings, FetchedRequest, InitialOffset, KafkaReceiver, KafkaReceiverSettings, Message,
    MockBroker, Producer, ProducerSettings, RecordSink, SIGNAL_HEADER, TopicSettings, Untaken,
    key_of,
};
use spanscore_net::metrics::unread_meter;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::support::patience::PATIENCE;
use crate::support::program::Program;
use crate::support::spans::{agent, request, tool};

/// Sink that hands on what it takes.
struct Reader(mpsc::UnboundedSender<FetchedRequest>);

impl RecordSink for Reader {
    async fn take(&self, fetched: FetchedRequest) -> Result<(), Untaken> {
        self.0.send(fetched).map_err(|_| Untaken::Ending)
    }

    async fn drop_revoked(&self) {}
}

fn config(broker: &str) -> String {
    format!(
        r#"receivers:
  otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:0"}}}}}}
  kafka:
    brokers: ["{broker}"]
    traces: {{topics: [spans]}}
    logs: {{topics: []}}
    initial_offset: earliest
exporters: {{kafka: {{brokers: ["{broker}"], topic: verdicts}}}}
traces: {{quiet_period: 100ms}}
evaluators: {{tool_error: , tool_efficiency: }}
store: false
dashboard: false
"#
    )
}

/// Writes the root of each trace, and its call, as records of their own.
async fn write(broker: &MockBroker, traces: &[u8]) {
    let cluster = ClusterSettings { brokers: vec![broker.address()], ..ClusterSettings::default() };
    let settings = ProducerSettings::default();
    let producer = Producer::start(&cluster, &settings, "spans", Duration::from_secs(30)).unwrap();
    let message = |trace: u8, span| Message {
        key: key_of(TraceId([trace; 16])),
        headers: vec![(SIGNAL_HEADER, "traces".to_owned())],
        payload: request(vec![span]).encode_to_vec().into(),
    };
    let of_trace =
        |trace: &u8| [message(*trace, tool(*trace, 2, "search")), message(*trace, agent(*trace))];
    let messages: Vec<_> = traces.iter().flat_map(of_trace).collect();
    assert!(producer.send_all(&messages).await.iter().all(Result::is_ok));
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_of_a_topic_leave_as_evaluations_in_another() {
    let folder = tempfile::tempdir().unwrap();
    let broker = MockBroker::start(&[("spans", 4), ("verdicts", 2)]).unwrap();
    let program = Program::start(folder.path(), &config(&broker.address()));
    let traces = [1_u8, 2, 3];
    write(&broker, &traces).await;
    let (told, mut read) = mpsc::unbounded_channel();
    let topics =
        |names: &[&str]| TopicSettings { topics: names.iter().map(|it| (*it).into()).collect() };
    let settings = KafkaReceiverSettings {
        brokers: vec![broker.address()],
        traces: topics(&[]),
        logs: topics(&["verdicts"]),
        group_id: "reader".to_owned(),
        initial_offset: InitialOffset::Earliest,
        ..KafkaReceiverSettings::default()
    };
    let memory = MemoryQuota::new("requests", 64 << 20);
    let sink = Arc::new(Reader(told));
    let reader =
        KafkaReceiver::start(Some(&settings), false, sink, &memory, &unread_meter()).await.unwrap();
    let mut all = Vec::new();
    let counted = |bytes: &[u8], part: &[u8]| memchr::memmem::find_iter(bytes, part).count();
    while counted(&all, b"gen_ai.evaluation.result") < 2 * traces.len() {
        let fetched = timeout(PATIENCE, read.recv()).await.unwrap().unwrap();
        assert_eq!(fetched.signal, Signal::Logs);
        all.extend_from_slice(&fetched.request);
    }
    for trace in traces {
        assert_eq!(counted(&all, &[&[0x4a, 16], &[trace; 16][..]].concat()), 2, "trace {trace}");
    }
    program.signal("-TERM");
    assert_eq!(program.end().0, Some(0));
    reader.stop(std::future::pending()).await;
}
