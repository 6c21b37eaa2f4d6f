use std::time::Instant;

use super::*;
use crate::StoreCount;

/// Returns the processor time of the thread named `store`, seconds.
fn writer_seconds() -> f64 {
    let is_writer = |task: &Path| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "store")
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let task = tasks.into_iter().find(|task| is_writer(task)).unwrap();
    busy_seconds(&task)
}

/// Returns the processor time of a thread, seconds.
fn busy_seconds(task: &Path) -> f64 {
    let times = std::fs::read_to_string(task.join("schedstat")).unwrap();
    times.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Measures a million evaluations: `cargo test --release -p spanscore-store -- --ignored
/// --nocapture a_million`.
#[test]
#[ignore = "a measurement of a minute, not a check"]
fn a_million_evaluations() {
    const RUNS: u64 = 100_000;
    const WEEK_NS: u64 = 7 * 24 * 3_600 * 1_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let evaluators: Vec<_> = (1..=10).map(|number| info(&"n".repeat(number))).collect();
    let started = Instant::now();
    for number in 0..RUNS {
        while store.view().counters().get(StoreCount::Trajectories) + 2_000 < number {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // Spread over the week of the overview.
        let ended_ns = now_ns() - WEEK_NS / RUNS * (RUNS - number);
        let mut record = run(number, 0, false);
        record.start_ns = ended_ns - 3_000_000_000;
        record.end_ns = ended_ns;
        for call in &mut record.calls {
            call.start_ns = ended_ns - 2_000_000_000;
            call.end_ns = ended_ns - 1_000_000_000;
        }
        store.trajectory(record);
        let target = Arc::new(Target { ended_ns, ..Target::clone(&target(number)) });
        let evaluations = evaluators.iter().enumerate().map(|(at, info)| Evaluation {
            evaluator: Arc::clone(info),
            target: Arc::clone(&target),
            ..evaluation(number, at as u8, scored(if at == 0 { 0.5 } else { 1.0 }), None)
        });
        store.evaluations(evaluations.collect());
    }
    let busy = writer_seconds();
    store.close();
    let seconds = started.elapsed().as_secs_f64();
    let count = |count| store.view().counters().get(count);
    println!(
        "{} evaluations of {} runs in {seconds:.1} s: {:.0}/s, {} MiB, shed {} and {}",
        count(StoreCount::Evaluations),
        count(StoreCount::Trajectories),
        count(StoreCount::Evaluations) as f64 / seconds,
        count(StoreCount::FileBytes) >> 20,
        count(StoreCount::ShedContent),
        count(StoreCount::ShedEvaluations),
    );
    println!("processor time of the writer, but for the last rows: {busy:.1} s");
    let reader = reader(folder.path());
    let id = trace_id(RUNS / 2).to_string();
    timed("one run", || reader.trajectory(&id).unwrap());
    timed("newest 50", || {
        let found = reader.evaluations(&StoreFilter::default(), StoreOrder::Newest, 50);
        found.unwrap()
    });
    timed("worst 10", || {
        let found = reader.evaluations(&StoreFilter::default(), StoreOrder::Worst, 10);
        found.unwrap()
    });
    overview(&reader);
}

/// Prints the processor time of a query, the best of three.
fn timed<T>(what: &str, ask: impl Fn() -> T) -> f64 {
    let own = Path::new("/proc/thread-self");
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let before = busy_seconds(own);
        ask();
        best = best.min((busy_seconds(own) - before) * 1e3);
    }
    println!("{what}: {best:.1} ms");
    best
}

/// Runs the queries of a seven-day overview.
fn overview(reader: &StoreReader) {
    use crate::query::StoreField;
    const DAY_MS: i64 = 24 * 3_600_000;
    let now_ms = crate::writer::now_ms();
    let since = |days: i64| {
        let mut filter = StoreFilter::default();
        filter.from_ms = Some(now_ms - days * DAY_MS);
        filter
    };
    let week = since(7);
    let mut before = since(14);
    before.to_ms = week.from_ms;
    let mut fails = since(7);
    fails.add(StoreField::Label, "fail");
    let groups = |by: &[StoreField]| reader.groups(&week, by).unwrap();
    let buckets = (now_ms - 7 * DAY_MS, 7 * DAY_MS / 300);
    let all = [
        timed("overview: figures", || groups(&[])),
        timed("overview: figures before", || reader.groups(&before, &[]).unwrap()),
        timed("overview: calls", || reader.count_calls(&week).unwrap()),
        timed("overview: runs", || reader.count_runs(&week).unwrap()),
        timed("overview: curve", || reader.series(&week, &[], buckets).unwrap()),
        timed("overview: evaluators", || groups(&[StoreField::Evaluator])),
        timed("overview: tools", || reader.tools(&week).unwrap()),
        timed("overview: fails", || reader.evaluation_page(&fails, None, 8).unwrap()),
    ];
    println!("overview of seven days in all: {:.1} ms", all.iter().sum::<f64>());
}
