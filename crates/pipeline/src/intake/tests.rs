use super::*;
use crate::kafka::TopicIntake;
use spanscore_base::model::{ClientGroup, Memory, Source, SpanRecord};
use spanscore_base::otlp::json;
use spanscore_emit::Exporters;
use spanscore_kafka::{FetchedRequest, RecordSink};
use spanscore_telemetry::Telemetry;

fn intake(shards: Vec<mpsc::Sender<ShardMessage>>, telemetry: &Telemetry) -> PipelineIntake {
    let (context, _) = WorkerContext::of(telemetry, Vec::new());
    let queue = MemoryQuota::new("queue", 1 << 20);
    PipelineIntake::new(&context, shards, &queue, &telemetry.meter())
}

fn batch() -> SpanBatch {
    let record = SpanRecord {
        span_id: Default::default(),
        parent_id: Default::default(),
        start_ns: 0,
        end_ns: 0,
        flags: Default::default(),
        resource: 0,
        facts: 0..0,
        content: 0,
        peer: 0,
    };
    let mut batch = SpanBatch::default();
    batch.push(Default::default(), record);
    batch
}

fn nothing() -> Received {
    Received::protobuf(Signal::Traces, Bytes::new())
}

fn soon() -> Instant {
    Instant::now() + ROOM_WAIT
}

#[tokio::test(start_paused = true)]
async fn request_for_a_shard_that_is_full_is_refused_in_time_and_counted() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let (first, _first_queue) = mpsc::channel(4);
    let (second, _second_queue) = mpsc::channel(1);
    let intake = intake(vec![first, second], &telemetry);
    let give = async |batches| {
        let room = intake.room_for(1, &Arc::default(), soon()).await.unwrap();
        intake
            .hand_over(
                (batches, intake.extraction.table()),
                room,
                soon(),
                RequestOrigin::Sender(&nothing()),
            )
            .await
            .map(drop)
    };
    assert_eq!(give(vec![batch(), batch()]).await, Ok(()));
    let started = Instant::now();
    let refused = give(vec![batch(), batch()]).await;
    assert_eq!(refused, Err(Refused::Later { lack: Lack::Room, retry_after: RETRY_AFTER }));
    assert_eq!(started.elapsed(), ROOM_WAIT);
    assert!(telemetry.exposition().contains("reason=\"shard_full\"} 1"));
    assert_eq!(give(vec![batch(), SpanBatch::default()]).await, Ok(()), "the others go on");
}

#[tokio::test]
async fn request_that_one_shard_cannot_take_is_taken_by_none() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let (first, mut first_queue) = mpsc::channel(4);
    let (second, second_queue) = mpsc::channel(4);
    let intake = intake(vec![first, second], &telemetry);
    let give = async |batches| {
        let room = intake.room_for(1, &Arc::default(), soon()).await.unwrap();
        intake
            .hand_over(
                (batches, intake.extraction.table()),
                room,
                soon(),
                RequestOrigin::Sender(&nothing()),
            )
            .await
            .map(drop)
    };
    assert_eq!(give(vec![batch(), batch()]).await, Ok(()));
    assert!(matches!(first_queue.try_recv(), Ok(ShardMessage::Batch { .. })));
    drop(second_queue);
    let refused = give(vec![batch(), batch()]).await;
    assert_eq!(refused, Err(Refused::ShuttingDown));
    assert!(first_queue.try_recv().is_err(), "the sender will come again with it");
    assert_eq!(give(vec![batch(), SpanBatch::default()]).await, Ok(()));
    assert!(matches!(first_queue.try_recv(), Ok(ShardMessage::Batch { .. })));
    assert_eq!(intake.queue.share().held(), 0, "what was taken in is dropped with its room");
}

#[tokio::test]
async fn a_request_that_waits_for_the_restore_goes_by_the_state_that_follows() {
    let why = "what an earlier process left cannot be read";
    let lost = Refused::Later { lack: Lack::Log(why), retry_after: RETRY_AFTER };
    for (next, later, expected) in [
        (IntakeState::Live, IntakeState::Live, Ok(())),
        (IntakeState::Lost, IntakeState::Lost, Err(lost)),
        (IntakeState::Closed, IntakeState::Closed, Err(Refused::ShuttingDown)),
        (IntakeState::Closed, IntakeState::Live, Err(Refused::ShuttingDown)),
    ] {
        let telemetry = Telemetry::without_endpoints().unwrap();
        let (shard, _queue) = mpsc::channel(4);
        let intake = intake(vec![shard], &telemetry);
        intake.enter(IntakeState::Restoring);
        let gate = intake.hold_requests().await;
        let ending = async {
            intake.enter(next);
            intake.enter(later);
            drop(gate);
        };
        let sender = Arc::default();
        let (answer, ()) = tokio::join!(biased; intake.accept(nothing(), &sender), ending);
        assert_eq!(answer.map(drop), expected);
    }
}

#[tokio::test]
async fn request_of_a_topic_reaches_its_shard_with_the_group_of_its_records() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let text = include_bytes!("../../../../examples/traces/refund_agent.json");
    let request = json::transcode(Signal::Traces, text).unwrap();
    for group in [ClientGroup::default(), ClientGroup::named("a")] {
        let (shard, mut queue) = mpsc::channel(4);
        let intake = Arc::new(intake(vec![shard], &telemetry));
        let meter = telemetry.meter();
        let registry = telemetry.registry();
        let exporters = Exporters::start(&[], &Memory::default(), &meter, registry, None).unwrap();
        let sink = TopicIntake::new(intake, &Arc::new(exporters), &meter);
        let claims = RecordClaims::One(Arc::<Source>::default().claim(0, 0));
        let request = request.clone();
        let fetched = FetchedRequest { signal: Signal::Traces, group, request, claims };
        assert_eq!(sink.take(fetched).await, Ok(()));
        let Ok(ShardMessage::Batch { batch, .. }) = queue.try_recv() else { panic!("no batch") };
        assert_eq!(batch.sender.group, group);
    }
}
