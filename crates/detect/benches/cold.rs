//! Time and findings of detectors on texts that are read once.
//!
//! `cargo bench -p spanscore-detect --bench cold -- READER FILE..` reads results, one JSON value
//! per line: a text, or an object with the text under `text` or `result`. Readers are `failures` of
//! tools, the rules of `safety`, the `redactor`, and that of `stored` runs. A row has the processor
//! time of the first pass over the texts in a fresh process, and of the next pass with warm caches.
//! Besides the files there are random texts of a load generator's words, logs of 100 kB, and plain
//! arguments and sentences without findings. Each set has its own process, so that none warms
//! caches for another. `READER --findings FILE` prints the findings of each line instead.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "it prints, and stops if it cannot")]

use std::process::Command;
use std::sync::Arc;

use spanscore_base::model::WorkBudget;
use spanscore_base::value::{Value, json};
use spanscore_detect::failure::{FailureDetectors, built_in_detectors};
use spanscore_detect::pack::{self, Pack};
use spanscore_detect::redactor::{PlaceholderNumbers, Redactor};

/// Words of a load generator: common ones, as in logs.
const WORDS: &str = "the customer order refund policy status shipping search result please account \
    agent should call tool with argument and then summarise find nearest warehouse invoice number \
    date because error timeout retry confirmed weather flight hotel booking payment failed";
const LEVELS: [&str; 6] = ["INFO", "DEBUG", "INFO", "WARN", "ERROR", "INFO"];

/// Random number generator `splitmix64`.
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

/// Returns a sentence or JSON arguments, alternately.
fn plain(random: &mut Random, turn: usize) -> String {
    let number = random.below(1000);
    let words = random.words(30);
    let place = ["Berlin", "Lyon", "Kyoto", "Quito"][random.below(4)];
    match turn % 3 {
        0 => format!("order {number} of {place} is on its way"),
        1 => format!(r#"{{"order": {number}, "city": "{place}", "note": "{words}"}}"#),
        _ => format!(r#"{{"status": "ok", "items": [{{"id": {number}, "name": "{place}"}}]}}"#),
    }
}

/// Returns the content of a run of six calls as in the store: JSON with random texts.
fn run(random: &mut Random) -> String {
    let mut words = |bytes| random.words(bytes);
    let field = |text: String| format!(r#"{{"value":"{text}"}}"#);
    let mut call = || {
        let arguments = format!(r#"{{"value":{{"query":"{}"}}}}"#, words(290));
        format!(r#"{{"arguments":{arguments},"result":{}}}"#, field(words(300)))
    };
    let calls: Vec<String> = (0..6).map(|_| call()).collect();
    let input = field(words(400));
    let output = field(words(700));
    format!(r#"{{"input":{input},"output":{output},"calls":[{}]}}"#, calls.join(","))
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
        "plain" => Some((0..30_000).map(|turn| plain(&mut random, turn)).collect()),
        "runs" => Some((0..2_000).map(|_| run(&mut random)).collect()),
        _ => None,
    }
}

/// Returns the texts of a generated set, or of a file.
fn texts(set: &str) -> Vec<String> {
    made(set).unwrap_or_else(|| texts_of(set))
}

/// Reader of the texts.
enum Reader {
    Failures(Arc<FailureDetectors>),
    Safety(Arc<Pack>),
    Redactor,
    Stored,
}

impl Reader {
    fn of(name: &str) -> Self {
        match name {
            "failures" => Self::Failures(built_in_detectors().expect("the built-in detectors")),
            "safety" => Self::Safety(pack::safety().expect("the built-in rules")),
            name => {
                redactor();
                if name == "stored" { Self::Stored } else { Self::Redactor }
            }
        }
    }

    /// Returns the findings in a text, one per line.
    fn findings(&self, text: &str) -> Vec<String> {
        match self {
            Self::Failures(detectors) => {
                let found = detectors.judge_text(text, &WorkBudget::default());
                found
                    .map(|it| format!("{:?}\t{}\t{}", it.says, it.category, it.kind))
                    .into_iter()
                    .collect()
            }
            Self::Safety(pack) => {
                let scan = pack.scan_cached(text, usize::MAX);
                let hits = pack.rules().into_iter().flat_map(|rule| {
                    let hits = pack.hits(&scan, rule).collect::<Vec<_>>();
                    hits.into_iter().map(move |hit| {
                        format!("{rule}\t{}\t{:?}", hit.kind, hit.ranges().collect::<Vec<_>>())
                    })
                });
                hits.collect()
            }
            Self::Redactor => shown(text).into_iter().collect(),
            Self::Stored => stored(text).into_iter().collect(),
        }
    }

    /// Returns true if something is found in a text.
    fn finds(&self, text: &str) -> bool {
        match self {
            Self::Failures(detectors) => {
                detectors.judge_text(text, &WorkBudget::default()).is_some()
            }
            Self::Safety(pack) => !pack.scan_cached(text, usize::MAX).is_empty(),
            Self::Redactor => shown(text).is_some(),
            Self::Stored => stored(text).is_some(),
        }
    }
}

fn redactor() -> Redactor {
    Redactor::for_display(PlaceholderNumbers::default(), 1 << 26).expect("the built-in detectors")
}

/// Redacts a text as the store does: learns its secrets, then replaces.
fn shown(text: &str) -> Option<String> {
    let shown = redactor().redacted(&[&Value::from(text)])?.pop()?;
    shown.as_str().filter(|shown| *shown != text).map(str::to_owned)
}

/// Redacts the content of a run as the store does; `None` if unchanged.
fn stored(text: &str) -> Option<String> {
    let value = json::parse(text).unwrap_or_else(|_| Value::from(text));
    let shown = redactor().redacted(&[&value])?.pop()?.to_string();
    Some(shown).filter(|shown| shown != text)
}

/// Reads each text once; returns the microseconds and the number of texts with findings.
fn pass(reader: &Reader, texts: &[String]) -> (f64, usize) {
    let start = processor_time();
    let found = texts.iter().filter(|text| reader.finds(text)).count();
    (processor_time() - start, found)
}

/// Returns the processor time of the process, microseconds; the wall clock would include other
/// processes.
fn processor_time() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3
}

fn print_row(name: &str, set: &str) {
    let texts = texts(set);
    let start = processor_time();
    let reader = Reader::of(name);
    let built = (processor_time() - start) / 1e3;
    let bytes: usize = texts.iter().map(String::len).sum();
    let file = set.rsplit('/').next().unwrap_or(set);
    println!("{name}, {file}: {} texts, {bytes} bytes, made in {built:.1} ms", texts.len());
    for look in ["first text ", "first look ", "second look", "third look "] {
        let read = if look == "first text " { &texts[..1] } else { &texts[..] };
        let (micros, found) = pass(&reader, read);
        let bytes: usize = read.iter().map(String::len).sum();
        let each = micros / read.len() as f64;
        let speed = bytes as f64 / micros;
        println!("  {look} {each:9.2} us a text {speed:8.1} MB/s  {found} with findings");
    }
}

fn print_findings(name: &str, path: &str) {
    let reader = Reader::of(name);
    for text in texts(path) {
        let found = reader.findings(&text);
        println!("{}", if found.is_empty() { "-".to_owned() } else { found.join("; ") });
    }
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [name, "--findings", path] => print_findings(name, path),
        [name, "--row", set] => print_row(name, set),
        [name, ref sets @ ..] => {
            let program = std::env::current_exe().expect("its own path");
            let made = if name == "stored" { &["runs"][..] } else { &["words", "plain", "logs"] };
            for set in sets.iter().chain(made).copied() {
                let status = Command::new(&program).args([name, "--row", set]).status();
                assert!(status.expect("it can be started").success(), "{set}");
            }
        }
        [] => println!("`failures`, `safety`, `redactor` or `stored` is needed, and files"),
    }
}
