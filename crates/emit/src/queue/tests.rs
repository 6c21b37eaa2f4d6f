mod away;
mod shares;
mod succession;

use std::sync::Mutex;

use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use super::*;
use crate::sample;
use spanscore_base::model::{Claims, Memory};

const LIMITS: QueueLimits = QueueLimits {
    bytes_max: 1000,
    consumers: 2,
    flush_timeout: Duration::from_millis(200),
    batch_count: 4,
    batch_bytes: 1000,
    must_deliver: true,
};

/// Destination that records size and time of each batch, and optionally blocks.
#[derive(Clone)]
struct Noting {
    started: Instant,
    batches: Arc<Mutex<Vec<(usize, u64)>>>,
    gate: Option<Arc<Notify>>,
    /// Size of the batch that panics.
    poison: Option<usize>,
}

impl Noting {
    fn new(gate: Option<Arc<Notify>>) -> Self {
        Self { started: Instant::now(), batches: Arc::default(), gate, poison: None }
    }

    fn batches(&self) -> Vec<(usize, u64)> {
        self.batches.lock().map(|batches| batches.clone()).unwrap_or_default()
    }
}

impl Deliver for Noting {
    async fn deliver(&self, batch: EvaluationBatch) -> Delivery {
        let count = batch.iter().map(|part| part.len()).sum::<usize>();
        assert_ne!(self.poison, Some(count), "a fault while delivering");
        let at_ms = self.started.elapsed().as_millis() as u64;
        self.batches.lock().expect("not poisoned").push((count, at_ms));
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        Delivery { sent: count as u64, lost: Vec::new() }
    }
}

struct Fixture {
    queue: Queue,
    task: JoinHandle<()>,
    registry: Registry,
    _provider: SdkMeterProvider,
}

impl Fixture {
    fn start(limits: QueueLimits, end: impl Deliver) -> Self {
        Self::start_with(limits, None, end)
    }

    fn start_with(limits: QueueLimits, overflow: Option<Overflow>, end: impl Deliver) -> Self {
        let registry = Registry::new();
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .expect("a reader");
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let instruments = Instruments::new(&provider.meter("test"));
        let share = Memory::default().exporters;
        let overflow = overflow.map(Arc::new);
        let (queue, task) = Queue::start("x", limits, share, &instruments, (overflow, None), end);
        queue.show(&instruments);
        Self { queue, task, registry, _provider: provider }
    }

    fn offer(&self, evaluations: usize, bytes: usize) {
        let some: Arc<[_]> = vec![sample::scored(1.0); evaluations].into();
        self.queue.offer(&some, bytes, None);
    }

    async fn end(&mut self) {
        self.queue.closing().cancel();
        (&mut self.task).await.expect("the task ends");
    }

    /// Gives up the queue, as at the end of the shutdown timeout.
    async fn give_up(&mut self) -> u64 {
        self.queue.abandon(&mut self.task).await.lost
    }

    /// Returns the sum of a metric over all its labels.
    fn sum(&self, name: &str) -> u64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.map(|family| family.get_metric()).unwrap_or_default();
        let value = |metric: &prometheus::proto::Metric| {
            metric.get_counter().get_value().max(metric.get_gauge().get_value())
        };
        metrics.iter().map(value).sum::<f64>() as u64
    }

    /// Asserts that all offered evaluations are sent, lost, left or held.
    fn adds_up(&self) {
        let of = |name: &str| self.sum(&format!("spanscore_exporter_{name}"));
        let came = of("offered_evaluations_total") + of("recovered_evaluations_total");
        let lost = of("send_failed_evaluations_total") + of("enqueue_failed_evaluations_total");
        let held = of("queued_evaluations") + of("overflow_evaluations");
        let went = of("sent_evaluations_total") + lost + of("left_evaluations_total") + held;
        assert_eq!(came, went);
    }

    /// Asserts that the metrics contain a line.
    fn shows(&self, line: &str) {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).expect("text");
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

const FAILED: &str = "spanscore_exporter_send_failed_evaluations_total";
const REFUSED: &str = "spanscore_exporter_enqueue_failed_evaluations_total";

#[tokio::test(start_paused = true)]
async fn evaluations_go_together_after_the_flush_timeout() {
    let end = Noting::new(None);
    let mut fixture = Fixture::start(LIMITS, end.clone());
    fixture.offer(1, 10);
    tokio::time::sleep(Duration::from_millis(50)).await;
    fixture.offer(2, 10);
    tokio::time::sleep(Duration::from_millis(500)).await;
    fixture.end().await;
    assert_eq!(end.batches(), [(3, 200)]);
    fixture.shows(r#"spanscore_exporter_sent_evaluations_total{exporter="x"} 3"#);
    fixture.shows(&format!(r#"{REFUSED}{{exporter="x",reason="queue_full"}} 0"#));
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_goes_at_once() {
    let end = Noting::new(None);
    let mut fixture = Fixture::start(LIMITS, end.clone());
    for _ in 0..5 {
        fixture.offer(2, 10);
    }
    fixture.end().await;
    assert_eq!(end.batches(), [(4, 0), (4, 0), (2, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_takes_its_limit_and_drops_one_byte_past_it() {
    let gate = Arc::new(Notify::new());
    let end = Noting::new(Some(gate.clone()));
    let mut fixture = Fixture::start(LIMITS, end.clone());
    fixture.offer(4, 600);
    fixture.offer(3, 401);
    fixture.offer(4, 400);
    fixture.shows(r#"spanscore_exporter_queue_size_bytes{exporter="x"} 1000"#);
    fixture.shows(r#"spanscore_exporter_queue_capacity_bytes{exporter="x"} 1000"#);
    fixture.shows(&format!(r#"{REFUSED}{{exporter="x",reason="queue_full"}} 3"#));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(end.batches(), [(4, 0), (4, 0)]);
    gate.notify_waiters();
    fixture.end().await;
    fixture.shows(r#"spanscore_exporter_queue_size_bytes{exporter="x"} 0"#);
    fixture.offer(1, 1);
    fixture.shows(&format!(r#"{REFUSED}{{exporter="x",reason="shutting_down"}} 1"#));
}

#[tokio::test(start_paused = true)]
async fn no_more_deliveries_run_at_once_than_there_are_consumers() {
    let gate = Arc::new(Notify::new());
    let end = Noting::new(Some(gate.clone()));
    let mut fixture = Fixture::start(LIMITS, end.clone());
    for _ in 0..3 {
        fixture.offer(4, 10);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(end.batches().len(), 2);
    gate.notify_one();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(end.batches().len(), 3);
    gate.notify_one();
    gate.notify_one();
    tokio::time::sleep(Duration::from_secs(1)).await;
    gate.notify_waiters();
    fixture.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_loses_its_batch_and_gives_its_room_back() {
    let end = Noting { poison: Some(2), ..Noting::new(None) };
    let mut fixture = Fixture::start(LIMITS, end.clone());
    fixture.offer(2, 600);
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.offer(1, 600);
    fixture.end().await;
    fixture.shows(&format!(r#"{FAILED}{{exporter="x",reason="fault"}} 2"#));
    fixture.shows(r#"spanscore_exporter_sent_evaluations_total{exporter="x"} 1"#);
    fixture.shows(r#"spanscore_exporter_queue_size_bytes{exporter="x"} 0"#);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_at_the_end_is_counted_as_lost() {
    let end = Noting::new(Some(Arc::new(Notify::new())));
    let mut fixture = Fixture::start(LIMITS, end.clone());
    fixture.offer(3, 10);
    fixture.queue.closing().cancel();
    let ended = tokio::time::timeout(Duration::from_secs(1), &mut fixture.task).await;
    assert!(ended.is_err());
    fixture.offer(2, 10);
    assert_eq!(fixture.give_up().await, 3);
    fixture.shows(&format!(r#"{FAILED}{{exporter="x",reason="shutdown_deadline"}} 3"#));
    fixture.shows(&format!(r#"{REFUSED}{{exporter="x",reason="shutting_down"}} 2"#));
    fixture.shows(r#"spanscore_exporter_queue_size_bytes{exporter="x"} 0"#);
}

#[tokio::test(start_paused = true)]
async fn what_waits_when_the_queue_is_given_up_is_counted_as_lost_wherever_it_is() {
    let end = Noting::new(Some(Arc::new(Notify::new())));
    let mut fixture = Fixture::start(LIMITS, end.clone());
    // Two deliveries hang, a third waits for a consumer, the rest is queued.
    for _ in 0..5 {
        fixture.offer(4, 10);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(end.batches().len(), 2);
    assert_eq!(fixture.give_up().await, 20);
    fixture.shows(r#"spanscore_exporter_sent_evaluations_total{exporter="x"} 0"#);
    fixture.shows(&format!(r#"{FAILED}{{exporter="x",reason="shutdown_deadline"}} 20"#));
    fixture.shows(r#"spanscore_exporter_queue_size_bytes{exporter="x"} 0"#);
}

/// Destination that cannot be aborted, like a working thread, until released.
struct Unstoppable {
    started: Arc<Notify>,
    gate: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Deliver for Unstoppable {
    async fn deliver(&self, batch: EvaluationBatch) -> Delivery {
        self.started.notify_one();
        self.gate.lock().expect("not poisoned").recv().expect("the test goes on");
        Delivery { sent: batch.iter().map(|part| part.len() as u64).sum(), lost: Vec::new() }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn delivery_that_ends_while_the_queue_is_given_up_is_counted_once() {
    let (open, gate) = std::sync::mpsc::channel();
    let started = Arc::new(Notify::new());
    let end = Unstoppable { started: started.clone(), gate: Mutex::new(gate) };
    let mut fixture = Fixture::start(LIMITS, end);
    fixture.offer(4, 10);
    started.notified().await;
    let release_receipts = async { open.send(()).expect("the delivery waits") };
    let (lost, ()) = tokio::join!(fixture.give_up(), release_receipts);
    assert_eq!(lost, 0);
    fixture.shows(r#"spanscore_exporter_sent_evaluations_total{exporter="x"} 4"#);
    fixture.shows(&format!(r#"{FAILED}{{exporter="x",reason="shutdown_deadline"}} 0"#));
    fixture.shows(r#"spanscore_exporter_queue_size_bytes{exporter="x"} 0"#);
}

#[tokio::test(start_paused = true)]
async fn queue_without_end_of_its_flush_timeout_waits_for_a_full_batch() {
    let end = Noting::new(None);
    let mut fixture =
        Fixture::start(QueueLimits { flush_timeout: Duration::MAX, ..LIMITS }, end.clone());
    fixture.offer(3, 10);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    fixture.offer(1, 10);
    fixture.end().await;
    assert_eq!(end.batches(), [(4, 3_600_000)]);
}

/// Number of evaluations, with a notification when all have arrived.
#[derive(Clone, Default)]
struct Arrivals(Arc<AtomicU64>);

impl Arrivals {
    fn receipt(&self) -> Receipt {
        let arrived = Arc::clone(&self.0);
        Receipt::new(Claims::default(), move || {
            arrived.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Fixture {
    fn offer_kept(&self, evaluations: usize, bytes: usize, arrivals: &Arrivals) {
        let some: Arc<[_]> = vec![sample::scored(1.0); evaluations].into();
        self.queue.offer(&some, bytes, Some(&arrivals.receipt()));
    }
}

#[tokio::test(start_paused = true)]
async fn receipt_waits_until_its_evaluations_have_arrived() {
    let gate = Arc::new(Notify::new());
    let arrivals = Arrivals::default();
    let mut fixture = Fixture::start(LIMITS, Noting::new(Some(gate.clone())));
    fixture.offer_kept(2, 10, &arrivals);
    fixture.offer_kept(2, 10, &arrivals);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(arrivals.count(), 0);
    gate.notify_one();
    fixture.end().await;
    assert_eq!(arrivals.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn receipt_is_let_go_where_evaluations_are_given_up_and_counted() {
    let arrivals = Arrivals::default();
    let mut fixture = Fixture::start(LIMITS, Noting { poison: Some(2), ..Noting::new(None) });
    fixture.offer_kept(2, 10, &arrivals);
    fixture.offer_kept(1, 1001, &arrivals);
    fixture.end().await;
    fixture.shows(&format!(r#"{FAILED}{{exporter="x",reason="fault"}} 2"#));
    fixture.shows(&format!(r#"{REFUSED}{{exporter="x",reason="queue_full"}} 1"#));
    assert_eq!(arrivals.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_receipt_waits_for_at_the_end_is_left_and_not_lost() {
    let end = Noting::new(Some(Arc::new(Notify::new())));
    let arrivals = Arrivals::default();
    let mut fixture = Fixture::start(LIMITS, end.clone());
    // Two deliveries hang, a third waits for a consumer, the rest is queued.
    for _ in 0..5 {
        fixture.offer_kept(4, 10, &arrivals);
    }
    fixture.offer(3, 10);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let abandoned = fixture.queue.abandon(&mut fixture.task).await;
    assert_eq!(abandoned, Abandoned { lost: 3, left: 20 });
    fixture.offer_kept(1, 10, &arrivals);
    assert_eq!((arrivals.count(), fixture.queue.left()), (0, 21));
    fixture.shows(r#"spanscore_exporter_left_evaluations_total{exporter="x"} 21"#);
    fixture.shows(r#"spanscore_exporter_offered_evaluations_total{exporter="x"} 24"#);
    fixture.shows(r#"spanscore_exporter_queued_evaluations{exporter="x"} 0"#);
    fixture.shows(&format!(r#"{FAILED}{{exporter="x",reason="shutdown_deadline"}} 3"#));
    fixture.shows(&format!(r#"{REFUSED}{{exporter="x",reason="shutting_down"}} 0"#));
}

#[tokio::test(start_paused = true)]
async fn queue_that_need_not_deliver_keeps_no_receipt() {
    let arrivals = Arrivals::default();
    let limits = QueueLimits { must_deliver: false, ..LIMITS };
    let mut fixture = Fixture::start(limits, Noting::new(Some(Arc::new(Notify::new()))));
    fixture.offer_kept(2, 10, &arrivals);
    assert_eq!(arrivals.count(), 1);
    assert_eq!(fixture.give_up().await, 2);
}
