//! The gate of a CI run: formats, rates, a baseline, inputs of many kinds.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::support::ran::{Ended, run};

/// One run of an agent as OTLP/JSON: its case, and the tools it calls, `!` before one that fails.
pub(crate) fn trace(id: usize, case: &str, tools: &[&str]) -> Json {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let root = json!({
        "traceId": format!("{id:032x}"), "spanId": format!("{:016x}", 1), "name": "agent",
        "startTimeUnixNano": "1790000000000000000", "endTimeUnixNano": "1790000009000000000",
        "attributes": [text("openinference.span.kind", "AGENT"), text("case", case)],
    });
    let calls = tools.iter().enumerate().map(|(at, tool)| {
        let name = tool.trim_start_matches('!');
        json!({
            "traceId": format!("{id:032x}"), "spanId": format!("{:016x}", at + 2),
            "parentSpanId": format!("{:016x}", 1), "name": name,
            "startTimeUnixNano": (1_790_000_001_000_000_000_u64 + at as u64).to_string(),
            "endTimeUnixNano": (1_790_000_001_500_000_000_u64 + at as u64).to_string(),
            "status": {"code": if tool.starts_with('!') { 2 } else { 1 }},
            "attributes": [
                text("openinference.span.kind", "TOOL"), text("tool.name", name),
                text("input.value", &json!({"n": at}).to_string()), text("output.value", "done"),
            ],
        })
    });
    let spans: Vec<Json> = [root].into_iter().chain(calls).collect();
    json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
}

pub(crate) struct Walk {
    pub(crate) folder: tempfile::TempDir,
}

impl Walk {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    }

    /// A recording of one run for each case.
    pub(crate) fn record(&self, name: &str, start: usize, runs: &[(&str, &[&str])]) -> String {
        let traces = runs.iter().zip(start..).map(|((case, tools), id)| trace(id, case, tools));
        let lines: Vec<String> = traces.map(|trace| trace.to_string()).collect();
        self.write(name, &lines.join("\n"))
    }

    /// A config that expects tools of each case in order, and that no call fails.
    pub(crate) fn config(&self, cases: &[(&str, &[&str])]) -> String {
        let rows = cases.iter().map(|(case, tools)| {
            json!({"id": case, "criteria": {"tool_calls_order": tools}}).to_string()
        });
        self.write("cases.jsonl", &rows.collect::<Vec<_>>().join("\n"));
        self.write(
            "eval.yaml",
            r#"{evaluators: {tool_error: ,
                tool_call_order/golden: {
                    expect: {file: cases.jsonl, key: 'attributes["case"]'}}}}"#,
        )
    }
}

pub(crate) const CASES: [(&str, &[&str]); 6] = [
    ("refund", &["find", "check", "pay"]),
    ("cancel", &["find", "stop"]),
    ("track", &["find", "locate"]),
    ("greet", &["look_up"]),
    ("return", &["find", "label"]),
    ("swap", &["find", "check", "send"]),
];

/// Runs after a change: half of the cases skip a step or fail on the way.
const WORSE: [(&str, &[&str]); 6] = [
    ("refund", &["!pay"]),
    ("cancel", &["!stop"]),
    ("track", &["!find"]),
    ("greet", &["!look_up", "look_up"]),
    ("return", &["!label"]),
    ("swap", &["!send", "find"]),
];

/// A text without what differs from run to run.
fn stable(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = match line.split_once("timestamp=\"") {
            Some((start, rest)) => format!("{start}timestamp=\"TIME{}", &rest[19..]),
            None => line.to_owned(),
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Returns the permissions of a file.
fn mode(path: &str) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[test]
fn a_pull_request_that_makes_the_agent_worse_is_caught() {
    let walk = Walk::new();
    let config = walk.config(&CASES);
    let (main, change) = (walk.record("main.json", 1, &CASES), walk.record("pr.json", 91, &WORSE));
    let score = |args: &[&str]| run(&[&["score", "--config", &config], args].concat());
    let scores = walk.folder.path().join("scores.jsonl");
    let scores = scores.to_str().expect("text");
    let good = score(&["--format", "jsonl", "--output", scores, &main]);
    assert_eq!((good.code, good.out.as_str(), good.err.as_str()), (0, "", ""));
    assert_eq!(mode(scores), 0o600, "it quotes arguments");

    let same = score(&["--baseline", scores, "--format", "summary", &main]);
    assert_eq!(same.code, 0, "{}", same.out);
    assert!(same.out.contains("baseline: tool_error: same"), "{}", same.out);

    let golden = score(&[&change]);
    assert_eq!(golden.code, 2, "{}", golden.out);
    let junit = score(&["--format", "junit", &change]);
    assert_eq!(junit.code, 2);
    well_formed(&junit.out);
    insta::assert_snapshot!("ci_walk_junit", stable(&junit.out));
    let markdown = score(&["--baseline", scores, "--format", "markdown", &change]);
    assert_eq!(markdown.code, 2);
    insta::assert_snapshot!("ci_walk_markdown", markdown.out);
}

#[test]
fn gate_without_tests_is_shut_in_every_format() {
    let walk = Walk::new();
    let config = walk.config(&[("a-mistyped-name", &["find"])]);
    let plain = walk.write("plain.yaml", "evaluators: {tool_error: }");
    let main = walk.record("main.json", 1, &CASES[..1]);
    let idle = walk.record("idle.json", 1, &[("refund", &[])]);
    let check = |args: &[&str], code: i32, words: &str| {
        let ended = run(&[&["score", "--config"], args].concat());
        assert_eq!(ended.code, code, "{args:?} {} {}", ended.out, ended.err);
        assert!(ended.err.contains(words), "{args:?} {}", ended.err);
    };
    let unnamed = "gate: shut: no trace names a case of tool_call_order/golden";
    for format in ["table", "jsonl", "junit", "github", "markdown", "summary"] {
        check(&[&config, "--format", format, &main], 2, unnamed);
        check(&[&plain, "--format", format, &idle], 0, "");
        check(
            &[&plain, "--format", format, "--fail-on", "nothing_scored", &idle],
            2,
            "gate: shut: nothing was scored",
        );
    }
    check(&[&config, "--fail-on", "fail", &main], 0, "");
    check(&[&plain, "--format", "jsonl", &idle], 0, "nothing was scored");
    let counted = "evaluators: {tool_call_args/a: {criteria: {tool_calls: [{name: x, args: {}}]}}}";
    let counted = walk.write("counted.yaml", counted);
    let unrecorded = trace(9, "x", &["x"]).to_string().replace("input.value", "other.value");
    let unrecorded = walk.write("unrecorded.json", &unrecorded);
    let expected = "nothing that the config expects was scored (tool_call_args/a)";
    check(&[&counted, &unrecorded], 2, expected);
}

#[test]
fn a_few_runs_that_fell_are_no_evidence_but_are_named() {
    let walk = Walk::new();
    let config = walk.config(&CASES[..2]);
    let (main, change) =
        (walk.record("main.json", 1, &CASES[..2]), walk.record("pr.json", 91, &WORSE[..2]));
    let scores = walk.folder.path().join("scores.jsonl");
    let scores = scores.to_str().expect("text");
    run(&["score", "--config", &config, "--format", "jsonl", "-o", scores, &main]);
    let ended = run(&["score", "--config", &config, "--baseline", scores, &change]);
    assert_eq!(ended.code, 0, "{}", ended.out);
    let said = "baseline: tool_error: no evidence (fewer than 5 scores show nothing)";
    assert!(ended.out.contains(said) && ended.out.contains("gate: open"), "{}", ended.out);
    let bad = walk.write("bad.jsonl", "{\"a\": 1}\n");
    let ended = run(&["score", "--baseline", &bad, &main]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("bad.jsonl:1: not a record of"), "{}", ended.err);
}

#[test]
fn a_share_that_must_pass_is_asked_of_all_or_of_one() {
    let walk = Walk::new();
    let config = walk.config(&CASES);
    let mut runs = CASES;
    runs[3].1 = &["!other"];
    let recorded = walk.record("runs.json", 1, &runs);
    let check = |rate: &str, code: i32, said: &str| {
        let args = ["score", "--config", &config, "--min-pass-rate", rate, &recorded];
        let ended = run(&args);
        let all = ended.out + &ended.err;
        assert!(ended.code == code && all.contains(said), "{rate}: {} {all}", ended.code);
    };
    check("0.8", 0, "gate: open");
    check("90%", 2, "gate: shut: tool_error: 83.3 % pass, 90.0 % must");
    check("tool_error=0.9", 2, "tool_error: 83.3 % pass");
    check("0.9,tool_error=50%", 2, "tool_call_order/golden: 83.3 % pass");
    check("tool_eror=0.9", 64, "no evaluator has this name");
    check("7", 64, "between 0 and 1");
}

/// Checks the demands of JUnit's schemas on the text itself: elements in their order, required
/// attributes, numbers that add up.
fn well_formed(xml: &str) {
    let count = |what: &str| xml.matches(what).count();
    assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites "));
    assert!(xml.ends_with("</testsuites>\n"));
    for (open, close) in [("<testsuite ", "</testsuite>"), ("<failure ", "</failure>")] {
        assert_eq!(count(open), count(close), "{xml}");
    }
    for line in xml.lines().filter(|line| line.contains("<testsuite ")) {
        for name in ["name", "id", "package", "hostname", "timestamp", "tests", "failures"] {
            assert!(line.contains(&format!(" {name}=\"")), "{line}");
        }
    }
    let number = |line: &str, name: &str| -> usize {
        let (_, rest) = line.split_once(&format!(" {name}=\"")).expect(name);
        rest.split('"').next().and_then(|text| text.parse().ok()).expect("a number")
    };
    let head = xml.lines().nth(1).expect("a head");
    assert_eq!(number(head, "tests"), count("<testcase "));
    assert_eq!(number(head, "failures"), count("<failure "));
}

#[test]
fn junit_and_github_hold_whatever_a_stranger_wrote() {
    let walk = Walk::new();
    let hostile = "a]]>\u{1b}[31m<b> & \"q\" \u{0}\r\n::error::x | `@team`";
    let recorded = walk.record("runs.json", 1, &[("x", &[&format!("!{hostile}")])]);
    let junit = run(&["score", "--format", "junit", &recorded]);
    well_formed(&junit.out);
    assert!(!junit.out.contains(['\u{1b}', '\u{0}']) && !junit.out.contains("<b>"));
    let github = run(&["score", "--format", "github", &recorded]);
    assert!(github.out.lines().all(|line| line.starts_with("::error title=")), "{}", github.out);
    let markdown = run(&["score", "--format", "markdown", "--details", &recorded]);
    // In a fence nothing is markup.
    let (open, _) = markdown.out.split_once("```diff").expect("details");
    assert!(!open.contains("<b>") && !open.contains("| `@"), "{}", markdown.out);
}

#[test]
fn coverage_of_a_dataset_is_told_from_both_sides() {
    let walk = Walk::new();
    let config = walk.config(&CASES);
    let recorded = walk.record("runs.json", 1, &[CASES[0], ("unheard", &["find"])]);
    let ended = run(&["score", "--config", &config, &recorded]);
    let trace = format!("{:032x}", 2);
    for said in [
        "5 of 6 cases of the dataset of tool_call_order/golden, that no trace named: `cancel`",
        &format!("1 trace of which tool_call_order/golden expects nothing: {trace}"),
    ] {
        assert!(ended.out.contains(said), "{}", ended.out);
    }
    let shut = |what: &str| run(&["score", "--config", &config, "--fail-on", what, &recorded]).code;
    assert_eq!((shut("unexpected_trace"), shut("unused_case")), (2, 2));
}

#[test]
fn expectations_learned_from_good_runs_catch_a_worse_one() {
    let walk = Walk::new();
    let good = walk.record("good/a.json", 1, &CASES);
    walk.record("good/b.json", 21, &CASES);
    let golden = walk.folder.path().join("golden.jsonl");
    let golden = golden.to_str().expect("text");
    let folder = walk.folder.path().join("good");
    let folder = folder.to_str().expect("text");
    let learned = run(&["learn", "--output", golden, folder]);
    assert_eq!(learned.code, 0, "{}", learned.err);
    assert_eq!(mode(golden), 0o600, "it quotes arguments");
    let config = golden.replace(".jsonl", ".yaml");
    let said = format!(
        "learned 6 cases from 12 runs\n\n\
         judge new runs by them: spanscore score --golden {config} FILES\n"
    );
    assert_eq!(learned.err, said);
    let again = run(&["learn", "--output", golden, folder]);
    assert_eq!(again.code, 64, "{}", again.err);
    assert!(again.err.contains("golden.jsonl is there: add --force"), "{}", again.err);
    assert_eq!(run(&["learn", "--force", "--output", golden, folder]).code, 0);
    let score = |files: &str| run(&["score", "--golden", &config, files]);
    let passed = score(&good);
    assert_eq!(passed.code, 0, "{}", passed.out);
    assert!(passed.out.contains("12 evaluations: 12 pass"), "{}", passed.out);
    let worse = walk.record("worse.json", 91, &WORSE);
    let caught = score(&worse);
    assert_eq!(caught.code, 2, "{}", caught.out);
    assert!(caught.out.contains("tool_trajectory/golden  0.000  fail"), "{}", caught.out);
    let one = walk.record("one.json", 61, &CASES[..1]);
    let unused = score(&one);
    assert_eq!(unused.code, 2, "each case is to be run: {}", unused.out);
    let mut crashed = trace(99, "refund", &["find"]);
    crashed["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["status"] = json!({"code": 2});
    let crashed = walk.write("crashed.json", &crashed.to_string());
    let without = run(&["learn", &good, &crashed]);
    assert!(without.err.contains("learned 6 cases from 6 runs"), "{}", without.err);
    assert!(without.err.contains("63 is left out: its root span failed"), "{}", without.err);
    let nameless = run(&["learn", "examples/traces"]);
    assert!(nameless.code == 1 && nameless.err.contains("2 runs left out"), "{}", nameless.err);
    assert_eq!(run(&["learn", "--key", "1 +", &good]).code, 64);
}

/// Runs that ask for two things at once, in either order, and then act on both.
#[test]
fn calls_made_together_are_learned_in_whatever_order_they_came() {
    let walk = Walk::new();
    let run_of = |id: usize, tools: &[&str], at: &str| {
        let mut run = trace(id, "trip", tools);
        let spans = run["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array_mut();
        for span in spans.expect("spans").iter_mut().skip(1) {
            let input = json!({"filter": {"city": "Oslo", "at": at}}).to_string();
            span["attributes"][2]["value"]["stringValue"] = Json::String(input);
            if span["name"] == "book" {
                span["startTimeUnixNano"] = "1790000002000000000".into();
                span["endTimeUnixNano"] = "1790000003000000000".into();
            }
        }
        run.to_string()
    };
    let runs: [(&str, &[&str]); 3] = [
        ("a", &["weather", "hotels", "book"]),
        ("b", &["hotels", "weather", "book"]),
        ("c", &["weather", "hotels", "book"]),
    ];
    let runs = runs.iter().zip(1..);
    let good: Vec<_> = runs.map(|((at, tools), id)| run_of(id, tools, at)).collect();
    let good = walk.write("good.jsonl", &good.join("\n"));
    let golden = walk.folder.path().join("golden.jsonl");
    let learned = run(&["learn", "-o", golden.to_str().expect("text"), &good]);
    assert!(learned.err.starts_with("learned 1 cases from 3 runs\n\n"), "{}", learned.err);
    let dataset = std::fs::read_to_string(&golden).expect("a dataset");
    let dataset: Json = serde_json::from_str(&dataset).expect("JSON");
    let call = |name: &str| json!({"name": name, "arguments": {"filter": {"city": "Oslo"}}});
    let expected = json!([call("weather"), call("hotels"), call("book")]);
    assert_eq!(dataset["trajectory"]["tool_calls"], expected);
    let config = golden.with_extension("yaml").display().to_string();
    let passed = run(&["score", "--config", &config, &good]);
    assert!(passed.code == 0 && passed.out.contains("6 evaluations: 6 pass"), "{}", passed.out);
    let late = run_of(9, &["hotels", "book"], "d");
    let late = run(&["score", "--config", &config, &walk.write("late.json", &late)]);
    assert_eq!(late.code, 2, "{}", late.out);
}

fn ids(ended: &Ended) -> Vec<String> {
    let records = ended.out.lines().map(|line| serde_json::from_str::<Json>(line).expect("JSON"));
    records.map(|it| format!("{} {}", it["evaluation_id"], it["score"])).collect()
}

#[test]
fn traces_are_judged_whole_however_their_spans_are_spread() {
    let walk = Walk::new();
    // More traces than one window holds; the spans of each far apart, over two files and a list.
    let count = 1100;
    let whole: Vec<Json> = (1..=count).map(|id| trace(id, "x", &["a", "!b", "a"])).collect();
    let spans = |half: usize| {
        let of = |trace: &Json| {
            let spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"].clone();
            let spans = spans.as_array().expect("spans").clone();
            spans.into_iter().skip(half).step_by(2).collect::<Vec<_>>()
        };
        let all: Vec<Json> = whole.iter().flat_map(of).collect();
        json!({"resourceSpans": [{"scopeSpans": [{"spans": all}]}]})
    };
    let lines: Vec<String> = whole.iter().map(Json::to_string).collect();
    let together = walk.write("together.jsonl", &lines.join("\n"));
    walk.write("apart/1.json", &json!([spans(0)]).to_string());
    walk.write("apart/more/2.jsonl", &spans(1).to_string());
    let one_line = format!("[{}]", lines.join(","));
    assert!(one_line.len() > 1 << 20, "a list that is read in parts");
    walk.write("lists/1.json", &one_line);
    let all: Vec<&Json> = whole.iter().map(|trace| &trace["resourceSpans"][0]).collect();
    let request = json!({"resourceSpans": all});
    walk.write("lists/2/all.json", &serde_json::to_string_pretty(&request).expect("JSON"));
    let apart = walk.folder.path().join("apart");
    let lists = ["lists/1.json", "lists/2"].map(|name| walk.folder.path().join(name));
    let pattern = walk.folder.path().join("apart/**/*.json*");
    let expected = ids(&run(&["score", "--format", "jsonl", &together]));
    assert_eq!(expected.len(), 2 * count);
    for path in lists.into_iter().chain([apart, pattern]) {
        let found = run(&["score", "--format", "jsonl", path.to_str().expect("text")]);
        assert!(ids(&found) == expected, "{}", found.err);
    }
}

#[test]
fn requests_behind_their_lengths_are_read() {
    let walk = Walk::new();
    let path = walk.folder.path().join("traces.pb");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/traces");
    let mut file = Vec::new();
    for name in ["refund_agent.json", "weather_agent.json"] {
        for request in spanscore_recordings::read_requests(&recorded.join(name)) {
            let (_, body) = request.expect("a request");
            file.extend_from_slice(&u32::try_from(body.len()).expect("small").to_be_bytes());
            file.extend_from_slice(&body);
        }
    }
    std::fs::write(&path, &file).expect("written");
    let text = |path: PathBuf| path.to_str().expect("text").to_owned();
    let expected = ids(&run(&["score", "--format", "jsonl", &text(recorded)]));
    assert_eq!(ids(&run(&["score", "--format", "jsonl", &text(path.clone())])), expected);
    std::fs::write(&path, &file[..file.len() - 1]).expect("written");
    let cut = run(&["score", "--fail-on", "never", &text(path)]);
    assert!(cut.code == 1 && cut.err.contains("request 2: "), "{}", cut.err);
}

#[test]
fn an_open_gate_says_why_the_exit_code_is_not_0() {
    let walk = Walk::new();
    let half = walk.record("half.jsonl", 1, &CASES[..1]);
    let refused = walk.write("refused.json", "{\"a\": 1}");
    let ended = run(&["score", "--format", "summary", "--fail-on", "never", &half, &refused]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    let said = "gate: open, but not everything could be read or judged whole";
    assert!(ended.out.contains(said) && ended.out.contains("exit code is 1"), "{}", ended.out);
    // Where there is no trace at all, no evaluator needs an excuse of its own.
    let empty = walk.write("empty.json", "{\"resourceSpans\": []}");
    let ended = run(&["score", "--fail-on", "unused_evaluator", &empty]);
    assert_eq!(ended.code, 2, "{}", ended.out);
    assert!(!ended.out.contains("not judged"), "{}", ended.out);
}

#[test]
fn a_baseline_is_read_line_by_line_and_says_what_it_is_not() {
    let walk = Walk::new();
    let recorded = walk.record("runs.json", 1, &CASES);
    let check = |text: &str, said: &str| {
        let baseline = walk.write("baseline.jsonl", text);
        let ended = run(&["score", "--baseline", &baseline, &recorded]);
        assert!(ended.code == 1 && ended.err.contains(said), "{}", ended.err);
    };
    check("\n\n", "holds no scores: `spanscore score --format jsonl -o");
    let scores = run(&["score", "--format", "jsonl", &recorded]).out;
    check(&format!("{scores}\n{{}}"), &format!(":{}: not a record of", scores.lines().count() + 2));
}

#[test]
fn tables_hold_whole_ids_on_request_and_stay_readable_without_a_width() {
    let recorded = "examples/traces/refund_agent.json";
    let whole = run(&["score", "--full-ids", recorded]);
    assert!(whole.out.contains("5b8efff798038103d269b633813fc60c  tool_error"), "{}", whole.out);
    let mut command = crate::support::ran::program(&["score", recorded]);
    command.env("COLUMNS", "0");
    let narrow = crate::support::ran::ended(command).out;
    assert!(narrow.lines().count() < 10, "{narrow}");
}
