//! Cost of the collector per span, beside a server that only acknowledges.
//!
//! `cargo bench --bench pipeline -- [ROUNDS] [SECONDS] [CASE ...]` runs every case in turn, in
//! processes of their own: the server on core 0, its load on core 1, both in a closed loop of
//! requests with 252 spans and fresh trace ids. The figure is the processor time of the server per
//! million spans, and its ratio to that of the floor of the same protocol in the same round, since
//! a machine's speed changes more between rounds than within one.
//!
//! The cases `forward` pass every request on to a floor of its own, on the core of the load, and
//! their floor is the same as that of the others: what `docs/forwarding.md` says they cost.
//!
//! `server CASE [BACKEND]` and `floor PROTOCOL` print their address and serve until they are
//! killed; `load PROTOCOL ADDRESS PID WARMUP SECONDS` prints processor seconds, spans and peak
//! memory; `local CASE REQUESTS` runs all stages but receiving in one thread, for instruction
//! counters; `digest REQUESTS` prints a hash of all evaluations of each case.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

mod cases;
mod floor;
mod load;
#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use cases::{CASES, Case};

/// Rounds unless the command line says otherwise.
const ROUNDS: usize = 5;
/// Seconds that are measured of each process, unless the command line says otherwise.
const SECONDS: f64 = 3.0;
/// Seconds before that: traces must become due, and memory must be at its size.
const WARMUP_SECONDS: f64 = 3.0;
/// The floor keeps nothing, so it is at its speed at once.
const FLOOR_WARMUP_SECONDS: f64 = 0.5;

/// Transport of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Grpc,
    Http,
}

impl Protocol {
    fn named(name: &str) -> Self {
        if name == "http" { Self::Http } else { Self::Grpc }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["server", case] => cases::serve(Case::named(case), None),
        ["server", case, backend] => cases::serve(Case::named(case), Some(backend)),
        ["local", case, requests] => cases::local(Case::named(case), requests.parse().unwrap()),
        ["digest", requests] => {
            CASES.iter().for_each(|case| cases::digest(*case, requests.parse().unwrap()));
        }
        ["floor", protocol] => floor::serve(Protocol::named(protocol)),
        ["load", protocol, address, pid, warmup, seconds] => {
            let times = (warmup.parse().unwrap(), seconds.parse().unwrap());
            load::run(Protocol::named(protocol), address, pid.parse().unwrap(), times);
        }
        ref words => compare(words),
    }
}

/// A server in a process of its own; ends with this value.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(core: usize, arguments: &[&str]) -> Self {
        let mut process = on_core(core, arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { process, address: address.trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// This executable with these arguments, pinned where `taskset` is there.
fn on_core(core: usize, arguments: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap();
    let has_taskset = Command::new("taskset").arg("-V").stdout(Stdio::null()).status().is_ok();
    let mut command = if has_taskset {
        let mut pinned = Command::new("taskset");
        pinned.args(["-c", &core.to_string()]).arg(own);
        pinned
    } else {
        Command::new(own)
    };
    command.args(arguments);
    command
}

/// One run: processor seconds per million spans, thousands of spans a second, peak memory in MB.
#[derive(Clone, Copy)]
struct Figures {
    cost: f64,
    rate: f64,
    memory: f64,
}

fn measure(server: &[&str], protocol: Protocol, warmup: f64, seconds: f64) -> Figures {
    let server = Server::start(0, server);
    let (pid, warmup) = (server.process.id().to_string(), warmup.to_string());
    let words = ["load", protocol.name(), &server.address, &pid, &warmup, &seconds.to_string()];
    let output = on_core(1, &words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [processor, spans, elapsed, memory] = numbers[..] else { panic!("no figures: {text}") };
    Figures { cost: processor / spans * 1e6, rate: spans / elapsed / 1e3, memory }
}

fn compare(words: &[&str]) {
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
    let rounds = number(0).map_or(ROUNDS, |rounds| rounds as usize);
    let seconds = number(1).unwrap_or(SECONDS);
    let wanted = |case: &&Case| words.len() <= 2 || words[2..].contains(&case.name);
    let mut runs: Vec<Vec<(f64, Figures)>> = vec![Vec::new(); CASES.len()];
    for _ in 0..rounds {
        for (case, runs) in CASES.iter().zip(&mut runs).filter(|(case, _)| wanted(case)) {
            let floor = ["floor", case.protocol.name()];
            let floor = measure(&floor, case.protocol, FLOOR_WARMUP_SECONDS, seconds);
            let backend = case.forwards.then(|| Server::start(1, &["floor", "grpc"]));
            let mut server = vec!["server", case.name];
            server.extend(backend.as_ref().map(|backend| backend.address.as_str()));
            let figures = measure(&server, case.protocol, WARMUP_SECONDS, seconds);
            let ratio = figures.cost / floor.cost;
            println!(
                "  {:24} {:5.2} s/M, {:4.0} k/s; floor {:5.2} s/M, {:4.0} k/s; ratio {ratio:.2}",
                case.name, figures.cost, figures.rate, floor.cost, floor.rate
            );
            runs.push((ratio, figures));
        }
    }
    println!("{:24} {:>18} {:>8} {:>8} {:>8}", "case", "x floor (min-max)", "s/M", "k/s", "MB");
    for (case, mut runs) in CASES.iter().zip(runs).filter(|(_, runs)| !runs.is_empty()) {
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, figures) = runs[runs.len() / 2];
        let spread = format!("{ratio:.2} ({:.2}-{:.2})", runs[0].0, runs[runs.len() - 1].0);
        let Figures { cost, rate, memory } = figures;
        println!("{:24} {spread:>18} {cost:8.2} {rate:8.0} {memory:8.0}", case.name);
    }
}
