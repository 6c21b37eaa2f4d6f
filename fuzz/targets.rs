//! Fuzz targets: each function takes any bytes and must neither panic nor run away.
//!
//! `fuzz/run.py` calls them with what a fuzzer makes up (`fuzz_targets/`), an ordinary test with the
//! seeds and with broken forms of them (`tests/it/security/fuzz.rs`).

use std::io::{self, IoSlice};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use spanscore::config::{ConfigPart, ConfigSources, Loaded, ResolvedConfig, load};
use spanscore_base::model::{
    Completion, Content, Facts, Outcome, SpanBatch, TraceSpans, Trajectory, Want, WorkBudget,
};
use spanscore_base::otlp::{AnyValue, Signal, json, request, tag};
use spanscore_base::settings::yaml;
use spanscore_base::value::{Value, json as value_json, python};
use spanscore_evaluate::engine::run::{Evaluators, Evidence};
use spanscore_evaluate::engine::select::{Scope, When};
use spanscore_evaluate::kind;
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{ExtractionCache, Resolver, Table, extract};
use spanscore_log::{Disk, DiskFile, Durability, Log, LogSettings, system_clock};

/// A function over any bytes.
pub(crate) type FuzzTarget = fn(&[u8]);

/// All targets by name; each has a folder of seeds.
pub(crate) const TARGETS: [(&str, FuzzTarget); 12] = [
    ("protobuf", protobuf),
    ("otlp_json", otlp_json),
    ("value_json", json_value),
    ("python", python_literal),
    ("config", config),
    ("dialects", dialects),
    ("stages", stages),
    ("judged", judged),
    ("contents", contents),
    ("expressions", expressions),
    ("patterns", patterns),
    ("log", log_replay),
];

/// Steps that a trace may take.
const STEPS: u64 = 10_000_000;

/// Evaluators that look at all there is.
const EVALUATORS: &str = "
  tool_error: {}
  tool_efficiency: {}
  tool_recovery: {}
  tool_loop: {}
  argument_grounding: {}
  tool_call_validity: {}
  tool_call_validity/full: {schema: full}
  tool_name_reliability: {}
  tool_description_reliability: {}
  output_rules/answer: {bundle: all}
  output_rules/iris: {compat: iris}
  output_rules/calls: {bundle: safety, level: call, target: tool_results}
  output_rules/arguments: {bundle: safety, target: tool_arguments}
";

/// The protobuf walker, values of attributes, and the writer of resource attributes.
pub(crate) fn protobuf(data: &[u8]) {
    let mut items = 0;
    let _ = request::walk(data, |_| items += 1);
    let _ = AnyValue::read(data);
    let tagged = tag::tag_resources(data, "spanscore.client", "fuzz");
    let mut again = 0;
    let _ = request::walk(&tagged, |_| again += 1);
    assert!(again >= items, "what could be read is read still");
}

/// OTLP/JSON.
pub(crate) fn otlp_json(data: &[u8]) {
    for signal in [Signal::Traces, Signal::Logs, Signal::Metrics] {
        if let Ok(request) = json::transcode(signal, data) {
            protobuf(&request);
        }
    }
    let _ = json::signals(data);
}

/// JSON in attributes: what is read can be written and read again.
pub(crate) fn json_value(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(value) = value_json::parse(text) {
        let written = value.to_string();
        assert!(value_json::parse(&written).is_ok(), "{written}");
    }
    let _ = value_json::parse_prefix(text);
}

/// Python's literals in attributes.
pub(crate) fn python_literal(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = python::parse_literal(text);
    }
}

/// A config: YAML, references, evaluators with their rules, expressions in CEL.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // What else a whole config has, the built-in one, takes longer than all that is made up.
    let loaded = if is_one_in(16, data) {
        let part = ConfigPart::Text { name: "fuzz".to_owned(), text: text.to_owned() };
        load(&[part], &|_| None)
    } else {
        let Ok(node) = yaml::read(text) else { return };
        Ok(Loaded { node, sources: ConfigSources::default() })
    };
    match loaded.and_then(|loaded| ResolvedConfig::new(&loaded)) {
        Ok(plan) => drop(plan.summary()),
        Err(error) => drop(error.to_string()),
    }
}

/// Tables of dialects.
pub(crate) fn dialects(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(own) = yaml::read(text).and_then(|node| node.read::<Vec<Dialect>>()) else { return };
    let all = if is_one_in(64, data) { Dialect::with_builtin(own) } else { own };
    if let Err(error) = Table::compile(all, &Facts::all()) {
        drop(error.to_string());
    }
}

/// Returns true for one input of so many, always the same: what takes long is done with few.
fn is_one_in(count: u64, data: &[u8]) -> bool {
    let hash = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash >> 32).is_multiple_of(count)
}

/// A request through the stages that need no clock: extracted, and each of its traces read.
pub(crate) fn stages(data: &[u8]) {
    static RESOLVER: LazyLock<Option<Resolver>> = LazyLock::new(|| resolver(&Facts::all()));
    let Some(resolver) = RESOLVER.as_ref() else { return };
    for trace in traces(resolver, data) {
        let trajectory = resolver.resolve_within(&trace, WorkBudget::new(STEPS));
        for call in &trajectory.tool_calls {
            let _ = (call.arguments.value(), call.result.value());
        }
    }
}

/// The same, and each of its traces judged.
pub(crate) fn judged(data: &[u8]) {
    static JUDGE: LazyLock<Option<FuzzJudge>> = LazyLock::new(|| FuzzJudge::new(EVALUATORS));
    if let Some(judge) = JUDGE.as_ref() {
        judge.judge(data);
    }
}

/// Texts where frameworks write JSON, literals of Python and messages: decoded and judged. Rules
/// that read texts byte by byte are left to `judged`.
pub(crate) fn contents(data: &[u8]) {
    static JUDGE: LazyLock<Option<FuzzJudge>> = LazyLock::new(|| {
        let rules = EVALUATORS.find("\n  output_rules").unwrap_or(EVALUATORS.len());
        FuzzJudge::new(&EVALUATORS[..rules])
    });
    let (Ok(text), Some(judge)) = (std::str::from_utf8(data), JUDGE.as_ref()) else { return };
    let Ok(request) = json::transcode(Signal::Traces, run_of(text).as_bytes()) else { return };
    if let Some(trace) = trace(&judge.resolver, Signal::Traces, &request) {
        judge.judge_trace(&trace);
    }
}

/// An expression in CEL over a run: as a condition, and as what names a case.
pub(crate) fn expressions(data: &[u8]) {
    thread_local! {
        static RUN: Option<Trajectory<'static>> = run();
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let steps = if is_one_in(64, data) { STEPS } else { STEPS / 100 };
    RUN.with(|run| {
        let (Ok(when), Some(run)) = (When::compile_condition(text), run) else { return };
        let mut scope = Scope::new(run, when.reads());
        scope.begin(&WorkBudget::new(steps));
        let _ = when.selects(&scope);
        scope.begin(&WorkBudget::new(steps));
        let _ = when.text(&scope);
    });
}

/// A run, read once.
fn run() -> Option<Trajectory<'static>> {
    static RUN: LazyLock<Option<(Resolver, TraceSpans)>> = LazyLock::new(|| {
        let run = run_of(r#"{"order": "A-17", "total": [1, 2.5]}"#);
        let request = json::transcode(Signal::Traces, run.as_bytes()).ok()?;
        let resolver = resolver(&Facts::all())?;
        let trace = trace(&resolver, Signal::Traces, &request)?;
        Some((resolver, trace))
    });
    let (resolver, trace) = RUN.as_ref()?;
    Some(resolver.resolve_within(trace, WorkBudget::new(STEPS)))
}

/// A pattern of a custom rule, a line of its own, over the rest, as ours and as JavaScript's.
pub(crate) fn patterns(data: &[u8]) {
    let Some((pattern, text)) = std::str::from_utf8(data).ok().and_then(|it| it.split_once('\n'))
    else {
        return;
    };
    let Some(kind) = kind("output_rules") else { return };
    let pattern = Value::from(pattern);
    let rules = format!(
        "bundle: custom, custom_rules: [{{name: r, type: regex_match, config: {{pattern: {pattern}}}}}]"
    );
    for compat in ["", "compat: iris, "] {
        let Ok(node) = yaml::read(&format!("{{{compat}{rules}}}")) else { continue };
        let Ok(evaluator) = (kind.build)(&node) else { continue };
        let run = Trajectory {
            final_output: Content::ready(Value::from(text)),
            effort: WorkBudget::new(STEPS),
            ..Trajectory::default()
        };
        let Some(evaluator) = evaluator.as_code() else { continue };
        assert_fair(&evaluator.evaluate(&run, Want::ALL));
    }
}

/// A segment of the log as an earlier process may have left it.
pub(crate) fn log_replay(data: &[u8]) {
    let disk = Arc::new(Memory::default());
    disk.put(&format!("{:016x}.log", 0), data.to_vec());
    let limits = LogSettings::default().limits(Durability::None);
    if let Ok((log, ..)) = Log::open(disk, limits, system_clock()) {
        assert!(log.records().count() <= data.len(), "a record has more bytes than none");
    }
}

/// Evaluators with what reads traces for them.
struct FuzzJudge {
    resolver: Resolver,
    evaluators: Evaluators,
}

impl FuzzJudge {
    /// Of the `evaluators:` of a config.
    fn new(entries: &str) -> Option<Self> {
        let evaluators = evaluators(entries)?;
        Some(Self { resolver: resolver(&evaluators.facts())?, evaluators })
    }

    fn judge(&self, request: &[u8]) {
        for trace in traces(&self.resolver, request) {
            self.judge_trace(&trace);
        }
    }

    fn judge_trace(&self, trace: &TraceSpans) {
        let mut trajectory = self.resolver.resolve_within(trace, WorkBudget::new(STEPS));
        let evidence = Evidence::first([1; 16], Completion::RootEnded, 1);
        let mut out = Vec::new();
        self.evaluators.evaluate_trace(&mut trajectory, evidence, &mut Vec::new(), &mut out);
        out.iter().for_each(|evaluation| assert_fair(&evaluation.outcome));
    }
}

/// Scores go from 0 to 1.
fn assert_fair(outcome: &Outcome) {
    if let Outcome::Scored(score) = outcome {
        assert!((0.0..=1.0).contains(&score.value), "{}", score.value);
    }
}

/// Those of a config with nothing else in it.
fn evaluators(entries: &str) -> Option<Evaluators> {
    let node = yaml::read(&format!("evaluators:{entries}")).ok()?;
    let loaded = Loaded { node, sources: ConfigSources::default() };
    Some(Evaluators::new(ResolvedConfig::new(&loaded).ok()?.evaluators, Want::ALL))
}

/// A folder in memory: a real one takes a hundred times as long as reading the segment.
#[derive(Default)]
struct Memory(Mutex<Vec<(String, MemoryFile)>>);

/// Bytes of one file; clones are the same file.
#[derive(Clone, Default)]
struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn put(&self, name: &str, bytes: Vec<u8>) -> MemoryFile {
        let file = MemoryFile(Arc::new(Mutex::new(bytes)));
        self.files(|files| files.push((name.to_owned(), file.clone())));
        file
    }

    fn files<T>(&self, then: impl FnOnce(&mut Vec<(String, MemoryFile)>) -> T) -> T {
        then(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn find(&self, name: &str) -> Option<MemoryFile> {
        self.files(|files| Some(files.iter().find(|(own, _)| own == name)?.1.clone()))
    }
}

impl Disk for Memory {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        match self.find(name) {
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => Ok(Box::new(self.put(name, Vec::new()))),
        }
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.find(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files(|files| files.iter().map(|(name, _)| name.clone()).collect()))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.remove(to)?;
        self.files(|files| {
            let found = files.iter_mut().find(|(name, _)| name == from);
            found.ok_or(io::ErrorKind::NotFound)?.0 = to.to_owned();
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files(|files| files.retain(|(own, _)| own != name));
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        Ok(())
    }
}

impl MemoryFile {
    fn bytes<T>(&self, then: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        then(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl DiskFile for MemoryFile {
    fn append(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.bytes(|bytes| {
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
            Ok(parts.iter().map(|part| part.len()).sum())
        })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.bytes(|bytes| {
            let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
            let rest = rest.unwrap_or_default();
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        })
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.bytes(|bytes| bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX)));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.bytes(|bytes| Ok(bytes.len() as u64))
    }
}

fn resolver(facts: &Facts) -> Option<Resolver> {
    let table = Table::compile(Dialect::builtin().to_vec(), facts).ok()?;
    Some(Resolver::new(Arc::new(table)))
}

/// The first trace of a request, read as traces and as logs.
fn traces(resolver: &Resolver, data: &[u8]) -> impl Iterator<Item = TraceSpans> {
    [Signal::Traces, Signal::Logs].into_iter().filter_map(|signal| trace(resolver, signal, data))
}

/// The first trace of a request.
fn trace(resolver: &Resolver, signal: Signal, data: &[u8]) -> Option<TraceSpans> {
    let (mut batches, mut cache) = ([SpanBatch::default()], ExtractionCache::default());
    let _ = extract(resolver.table(), signal, data, &mut cache, &mut batches);
    let [SpanBatch { arena, spans, runs, resources, .. }] = batches;
    let trace_id = runs.first()?.trace_id;
    Some(TraceSpans { trace_id, arena, spans, resources, ..TraceSpans::default() })
}

/// A run in OTLP/JSON, as three instrumentations write it, with a text wherever there is content.
fn run_of(text: &str) -> String {
    const SPANS: [&[(&str, Option<&str>)]; 4] = [
        &[
            ("openinference.span.kind", Some("AGENT")),
            ("input.value", None),
            ("output.value", None),
        ],
        &[
            ("openinference.span.kind", Some("TOOL")),
            ("tool.name", Some("search")),
            ("input.value", None),
            ("output.value", None),
        ],
        &[
            ("gen_ai.operation.name", Some("chat")),
            ("gen_ai.input.messages", None),
            ("gen_ai.output.messages", None),
            ("gen_ai.tool.definitions", None),
            ("llm.tools.0.tool.json_schema", None),
        ],
        &[
            ("gen_ai.operation.name", Some("execute_tool")),
            ("gen_ai.tool.name", Some("pay")),
            ("gen_ai.tool.call.arguments", None),
            ("gen_ai.tool.call.result", None),
        ],
    ];
    let text = Value::from(text).to_string();
    let span = |(at, attributes): (usize, &&[(&str, Option<&str>)])| {
        let attribute = |(key, fixed): &(&str, Option<&str>)| {
            let value = fixed.map_or(text.clone(), |fixed| format!("\"{fixed}\""));
            format!(r#"{{"key":"{key}","value":{{"stringValue":{value}}}}}"#)
        };
        let attributes: Vec<String> = attributes.iter().map(attribute).collect();
        let parent = if at == 0 { "" } else { "0000000000000001" };
        format!(
            r#"{{"traceId":"{:032x}","spanId":"{:016x}","parentSpanId":"{parent}","name":"s",
            "startTimeUnixNano":"{}","endTimeUnixNano":"{}","attributes":[{}]}}"#,
            7,
            at + 1,
            1_000 + at,
            9_000 - at,
            attributes.join(",")
        )
    };
    let spans: Vec<String> = SPANS.iter().enumerate().map(span).collect();
    format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}]}}]}}]}}"#, spans.join(","))
}
