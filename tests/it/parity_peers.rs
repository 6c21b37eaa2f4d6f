//! The table of names in `docs/evaluators.md`: the settings that it gives for evaluators of other
//! systems score as those do.
//!
//! Each line of `fixtures/parity/peers.jsonl.zst` holds the calls or the answer of a run, a kind
//! with its settings, and the score that the other system gave (`tests/interop/peers.py` asks
//! them). A case with `documented` shows a difference that the page names: the score may be
//! another.

use std::collections::BTreeMap;
use std::fs;

use spanscore_base::model::{CallStatus, Content, Outcome, ToolCall, Trajectory, Want};
use spanscore_base::settings::Node;
use spanscore_base::value::{Value, json};
use spanscore_evaluate::kind;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/parity/peers.jsonl.zst");
/// Cases that are shown of those of a system that differ.
const SHOWN: usize = 4;

fn text<'v>(value: &'v Value<'_>, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

fn content<'a>(value: &'a Value<'a>, key: &str) -> Content<'a> {
    value.get(key).map_or(Content::NotRecorded, |found| Content::ready(found.clone()))
}

fn tool_call<'a>(at: usize, call: &'a Value<'a>) -> ToolCall<'a> {
    let group = call.get("group").and_then(Value::as_number);
    ToolCall {
        name: text(call, "name").unwrap_or_default().into(),
        arguments: content(call, "arguments"),
        result: content(call, "result"),
        status: if text(call, "status") == Some("error") {
            CallStatus::Error
        } else {
            CallStatus::Ok
        },
        group: group.map_or(at as u32, |group| group.as_f64() as u32),
        ..ToolCall::default()
    }
}

fn score(case: &Value<'_>) -> Result<f64, String> {
    let kind = kind(text(case, "kind").unwrap()).unwrap();
    let settings = Node::from_value(case.get("settings").unwrap());
    let built = (kind.build)(&settings).map_err(|error| error.to_string())?;
    let calls = case.get("calls").and_then(Value::as_list).unwrap();
    let tool_calls = calls.iter().enumerate().map(|(at, call)| tool_call(at, call)).collect();
    let final_output = content(case, "final_output");
    let trajectory = Trajectory { tool_calls, final_output, ..Trajectory::default() };
    match built.as_code().unwrap().evaluate(&trajectory, Want::SCORE) {
        Outcome::Scored(score) => Ok(score.value),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn the_table_of_names_gives_the_scores_of_six_other_systems() {
    let text_of_cases =
        String::from_utf8(zstd::decode_all(&*fs::read(CASES).unwrap()).unwrap()).unwrap();
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text_of_cases.lines() {
        let case = json::parse(line).unwrap();
        let wanted = case.get("score").and_then(Value::as_number).unwrap().as_f64();
        let found = score(&case);
        let is_same = found.as_ref().is_ok_and(|found| (found - wanted).abs() <= 1e-9);
        let is_documented = case.get("documented").is_some();
        let peer = ["peer", "version"].map(|key| text(&case, key).unwrap()).join(" ");
        let counted = counts.entry(peer.clone()).or_default();
        counted[0] += 1;
        counted[1] += usize::from(is_documented);
        counted[2] += usize::from(is_documented && !is_same);
        if !is_same && !is_documented {
            wrong.entry(peer).or_default().push(format!("{case}\n  found {found:?}"));
        }
    }
    println!("cases, of documented differences, of those that differ: {counts:#?}");
    assert_eq!(counts.len(), 6, "the systems that there are");
    assert!(counts.values().all(|[cases, ..]| *cases >= 500), "{counts:?}");
    let shown = |(peer, cases): (String, Vec<String>)| {
        let first = cases[..cases.len().min(SHOWN)].join("\n");
        format!("{peer}: {} differ\n{first}\n", cases.len())
    };
    let shown: String = wrong.into_iter().map(shown).collect();
    assert!(shown.is_empty(), "{shown}");
}
