//! Time and findings of failure detection on texts that are read once.
//!
//! `cargo bench -p spanscore-detect --bench failures -- FILE..` reads results, one JSON value a
//! line: a text, or an object with the text under `text` or `result`. A row tells the processor
//! time of the first look at each text in a fresh process, the next one that of a second look, when
//! caches are warm. Beside the files there are texts of a load generator's words, drawn anew for
//! each, and logs of 100 kB. Each set has a process of its own, so that no set warms what another
//! one is timed on. `--findings FILE` prints the finding of each line instead.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "it prints, and stops if it cannot")]

use std::process::Command;

use spanscore_base::model::WorkBudget;
use spanscore_base::value::{Value, json};
use spanscore_detect::failure::{FailureDetectors, FailureFinding, built_in_detectors};

/// Words of which a load generator draws: common ones, as logs have them.
const WORDS: &str = "the customer order refund policy status shipping search result please account \
    agent should call tool with argument and then summarise find nearest warehouse invoice number \
    date because error timeout retry confirmed weather flight hotel booking payment failed";
const LEVELS: [&str; 6] = ["INFO", "DEBUG", "INFO", "WARN", "ERROR", "INFO"];

/// A generator of numbers: `splitmix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as usize % limit
    }

    fn words(&mut self, bytes: usize) -> String {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let mut text = String::new();
        while text.len() < bytes {
            text.push_str(words[self.below(words.len())]);
            text.push(' ');
            if self.below(9) == 0 {
                text.push_str(&format!("{} ", self.below(100_000)));
            }
        }
        text.truncate(bytes);
        text
    }

    fn log(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            let second = self.below(60);
            let level = LEVELS[self.below(LEVELS.len())];
            let length = 20 + self.below(120);
            let words = self.words(length);
            text.push_str(&format!("2026-11-03 10:15:{second:02} {level} worker: {words}\n"));
        }
        text
    }
}

/// Reads the texts of a file.
fn texts_of(path: &str) -> Vec<String> {
    let file = std::fs::read_to_string(path).expect("a file of JSON lines");
    let text = |line| match json::parse(line).expect("a line of JSON") {
        Value::Map(map) => match map.get("text").or_else(|| map.get("result")) {
            Some(Value::String(text)) => text.clone().into_owned(),
            other => other.map(ToString::to_string).unwrap_or_default(),
        },
        Value::String(text) => text.into_owned(),
        other => other.to_string(),
    };
    file.lines().map(text).collect()
}

fn made(set: &str) -> Option<Vec<String>> {
    let mut random = Random(set.len() as u64);
    let mut words = || {
        let bytes = 200 + random.below(200);
        random.words(bytes)
    };
    match set {
        "words" => Some((0..20_000).map(|_| words()).collect()),
        "logs" => Some((0..100).map(|_| random.log(100_000)).collect()),
        _ => None,
    }
}

/// Judges each text once; returns the microseconds and the number of failures.
fn pass(detectors: &FailureDetectors, texts: &[String]) -> (f64, usize) {
    let start = processor_time();
    let judged = texts.iter().map(|text| found(detectors, text).is_some());
    let failures = judged.filter(|failed| *failed).count();
    (processor_time() - start, failures)
}

/// Returns the microseconds that the process has been on a processor: a shared machine's clock
/// counts its neighbours too.
fn processor_time() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3
}

fn found<'d>(detectors: &'d FailureDetectors, text: &str) -> Option<FailureFinding<'d>> {
    detectors.judge_text(text, &WorkBudget::default())
}

fn print_row(set: &str) {
    let texts = made(set).unwrap_or_else(|| texts_of(set));
    let start = processor_time();
    let detectors = built_in_detectors().expect("the built-in detectors");
    let built = (processor_time() - start) / 1e3;
    let bytes: usize = texts.iter().map(String::len).sum();
    let name = set.rsplit('/').next().unwrap_or(set);
    println!("{name}: {} texts, {bytes} bytes, detectors made in {built:.1} ms", texts.len());
    for look in ["first look ", "second look", "third look "] {
        let (micros, failures) = pass(&detectors, &texts);
        let each = micros / texts.len() as f64;
        let speed = bytes as f64 / micros;
        println!("  {look} {each:9.2} us a text {speed:8.1} MB/s  {failures} failures");
    }
}

fn print_findings(path: &str) {
    let detectors = built_in_detectors().expect("the built-in detectors");
    for text in texts_of(path) {
        match found(&detectors, &text) {
            Some(FailureFinding { says, kind, category }) => {
                println!("{says:?}\t{category}\t{kind}");
            }
            None => println!("-"),
        }
    }
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--findings", path] => print_findings(path),
        ["--row", set] => print_row(set),
        _ => {
            let program = std::env::current_exe().expect("its own path");
            for set in words.into_iter().chain(["words", "logs"]) {
                let status = Command::new(&program).args(["--row", set]).status();
                assert!(status.expect("it can be started").success(), "{set}");
            }
        }
    }
}
