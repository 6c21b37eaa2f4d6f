//! The collector as a process, with the evaluators of a case and no exporters.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use spanscore::config::{ConfigPart, ResolvedConfig, load};
use spanscore_assemble::Shard;
use spanscore_base::model::{Completion, Evaluation, SpanBatch, Want};
use spanscore_base::otlp::Signal;
use spanscore_evaluate::engine::run::{Evaluators, Evidence};
use spanscore_extract::{Resolver, Table, extract};
use spanscore_pipeline::{Collector, CollectorSettings};

use super::Protocol;
use super::load::body;

/// Evaluators and the protocol that feeds them.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    evaluators: &'static [&'static str],
    /// Passes every request on to a server that only acknowledges.
    pub(crate) forwards: bool,
    keeps_runs: bool,
}

const SEVEN: &[&str] = &[ARGS, COUNT, ORDER, OUTPUT, VALIDITY, TRAJECTORY, EFFICIENCY];
const EIGHT: &[&str] = &[ARGS, COUNT, ORDER, OUTPUT, VALIDITY, TRAJECTORY, EFFICIENCY, ERROR];

pub(crate) const CASES: &[Case] = &[
    case("assemble", &[]),
    case("count-order", &[COUNT, ORDER]),
    case("seven", SEVEN),
    case("eight", EIGHT),
    Case { protocol: Protocol::Http, ..case("eight-http", EIGHT) },
    Case { keeps_runs: true, ..case("eight-store", EIGHT) },
    Case { forwards: true, ..case("forward", &[]) },
    Case { forwards: true, ..case("forward-eight", EIGHT) },
];

const fn case(name: &'static str, evaluators: &'static [&'static str]) -> Case {
    Case { name, protocol: Protocol::Grpc, evaluators, forwards: false, keeps_runs: false }
}

const ARGS: &str = r#"
  tool_call_args/bench:
    subset: true
    criteria:
      tool_calls:
        - {name: find_order, args: {query: "order status of the parcel"}}
        - {name: refund_order, args: {query: "refund the order"}}
"#;
const COUNT: &str = r#"
  tool_call_count/bench:
    criteria:
      tool_calls_count: {find_order: ["<=", 2], refund_order: ["=", 1], send_mail: [">=", 1]}
"#;
const ORDER: &str = r#"
  tool_call_order/bench:
    criteria:
      tool_calls_order: [find_order, weather_at, refund_order, send_mail]
"#;
const OUTPUT: &str = r#"
  tool_call_output/bench:
    criteria:
      tool_outputs:
        - {name: find_order, output: "order of the customer"}
        - {name: read_page, output: {page: 1}}
"#;
const VALIDITY: &str = "
  tool_call_validity/bench:
    tools:
      - {name: find_order, inputSchema: {properties: {query: {type: string}}, required: [query]}}
      - {name: refund_order, inputSchema: {properties: {query: {type: string}}, required: [query]}}
      - {name: weather_at, inputSchema: {properties: {place: {type: string}}, required: [place]}}
";
const TRAJECTORY: &str = "
  tool_trajectory/bench:
    match_mode: ANY_ORDER
    argument_matcher: {mode: IGNORE}
    criteria: {tool_calls: [{name: find_order}, {name: weather_at}, {name: refund_order}]}
";
const ERROR: &str = "
  tool_error:
";
const EFFICIENCY: &str = "
  tool_efficiency:
";

const CONFIG: &str = "
receivers:
  otlp:
    protocols:
      grpc: {endpoint: '127.0.0.1:0'}
      http: {endpoint: '127.0.0.1:0'}
exporters: {}
telemetry:
  metrics: {endpoint: null}
  health: {endpoint: null}
evaluators:
";

impl Case {
    pub(crate) fn named(name: &str) -> Self {
        *CASES.iter().find(|case| case.name == name).unwrap()
    }

    fn settings(self, backend: Option<&str>) -> CollectorSettings {
        let evaluators = if self.evaluators.is_empty() { "  {}" } else { "" };
        let forward = backend.map_or_else(String::new, |address| {
            let settings = format!("endpoint: 'http://{address}', compression: none");
            format!("\nforward:\n  otlp_grpc: {{{settings}}}\n")
        });
        let store = if self.keeps_runs { "" } else { "\nstore: false\n" };
        let text = format!("{CONFIG}{evaluators}{}{forward}{store}", self.evaluators.concat());
        let part = ConfigPart::Text { name: "bench".into(), text };
        ResolvedConfig::new(&load(&[part], &|_| None).unwrap()).unwrap().into()
    }
}

/// Takes that many requests through every stage but receiving, in this thread: for instruction
/// counters. Prints how many evaluations came of it.
pub(crate) fn local(case: Case, requests: u64) {
    let mut count = 0;
    let bytes = run(case, requests, Want::SCORE, |evaluations| count += evaluations.len());
    println!("{requests} requests, {count} evaluations, {bytes} bytes held a trace");
}

/// Prints a hash of everything that the evaluators say of that many requests, ids included: equal
/// figures before and after a change mean that no verdict changed.
pub(crate) fn digest(case: Case, requests: u64) {
    let (mut hash, mut count) = (Sha256::new(), 0);
    run(case, requests, Want::ALL, |evaluations| {
        count += evaluations.len();
        for evaluation in evaluations {
            let Evaluation { id, evaluator, target, span_id, outcome, revision, .. } = evaluation;
            let parts = (id, &evaluator.name, target.trace_id, span_id, outcome, revision);
            hash.update(format!("{parts:?}\n"));
        }
    });
    println!("{:24} {count:8} evaluations {:x}", case.name, hash.finalize());
}

/// The stages but receiving over that many requests; `take` gets the evaluations of each. Returns
/// the bytes that were held for a trace at the end.
fn run(case: Case, requests: u64, want: Want, mut take: impl FnMut(&[Evaluation])) -> usize {
    let settings = case.settings(None);
    let evaluators = Evaluators::new(settings.evaluators, want);
    let table = Arc::new(Table::compile(settings.dialects, &evaluators.facts()).unwrap());
    let resolver = Resolver::new(Arc::clone(&table));
    let mut shard = Shard::new(settings.traces, settings.limits, 1, 0);
    let (mut cache, mut due, mut evaluations) = (Default::default(), Vec::new(), Vec::new());
    let mut bytes = 0;
    let mut batches = [SpanBatch::default()];
    for number in 0..requests {
        let body = body(Protocol::Http, number);
        batches[0].clear();
        extract(&table, Signal::Traces, &body, &mut cache, &mut batches).unwrap();
        shard.add(&batches[0], number * 20, &mut due);
        shard.tick(number * 20, &mut due);
        if number + 1 == requests {
            bytes = shard.bytes() / shard.trace_count().max(1);
            shard.drain(Completion::Shutdown, number * 20, &mut due);
        }
        for due in due.drain(..) {
            let evidence = Evidence {
                digest: due.digest,
                revised: due.revised,
                revision: due.revision,
                completion: due.completion,
                is_partial: false,
                now_ns: 0,
            };
            let trace = shard.trace(due.handle).unwrap();
            let mut trajectory = resolver.resolve(trace);
            evaluators.evaluate_trace(&mut trajectory, evidence, &mut Vec::new(), &mut evaluations);
            drop(trajectory);
            shard.done(due.handle);
        }
        take(&evaluations);
        evaluations.clear();
    }
    bytes
}

/// Serves until the process is killed; what it passes on goes to the backend.
pub(crate) fn serve(case: Case, backend: Option<&str>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let collector = Collector::start(case.settings(backend)).await.unwrap();
        let address = match case.protocol {
            Protocol::Grpc => collector.addresses().grpc,
            Protocol::Http => collector.addresses().http,
        };
        println!("{}", address.unwrap());
        std::future::pending::<()>().await;
    });
}
