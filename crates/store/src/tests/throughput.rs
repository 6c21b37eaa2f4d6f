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
    let times = std::fs::read_to_string(task.join("schedstat")).unwrap();
    times.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Measures a million evaluations: `cargo test --release -p spanscore-store -- --ignored
/// --nocapture a_million`.
#[test]
#[ignore = "a measurement of a minute, not a check"]
fn a_million_evaluations() {
    const RUNS: u64 = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let evaluators: Vec<_> = (1..=10).map(|number| info(&"n".repeat(number))).collect();
    let started = Instant::now();
    for number in 0..RUNS {
        while store.counters().get(StoreCount::Trajectories) + 2_000 < number {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        store.trajectory(run(number, 0, false));
        let target = target(number);
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
    let count = |count| store.counters().get(count);
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
    let timed = |what: &str, ask: &dyn Fn()| {
        let started = Instant::now();
        ask();
        println!("{what}: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    };
    timed("one run", &|| drop(reader.trajectory(&id).unwrap()));
    let by = [crate::query::StoreField::Evaluator, crate::query::StoreField::Version];
    timed("figures of all", &|| drop(reader.groups(&StoreFilter::default(), &by).unwrap()));
    let newest = || reader.evaluations(&StoreFilter::default(), StoreOrder::Newest, 50);
    timed("newest 50", &|| drop(newest().unwrap()));
    let worst = || reader.evaluations(&StoreFilter::default(), StoreOrder::Worst, 10);
    timed("worst 10", &|| drop(worst()));
}
