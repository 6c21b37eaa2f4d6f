use std::borrow::Cow;

use opentelemetry_proto::tonic::common::v1::{AnyValue as PbValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource as PbResource;
use prost::Message;

use super::*;
use spanscore_base::model::tool_call::Lazy;
use spanscore_base::model::{Resource, SessionKey, ToolCall};

impl<'a> Scope<'a> {
    /// Prepares the variables with tool names, and a step budget.
    pub(in crate::engine) fn with_steps(trajectory: &'a Trajectory<'_>, steps: usize) -> Self {
        Self {
            steps: StepsLeft::new(steps),
            ..Self::new(trajectory, Reads { tool_names: true, ..Reads::default() })
        }
    }

    pub(in crate::engine) fn steps_left(&self) -> &StepsLeft {
        &self.steps
    }
}

fn resource() -> Resource {
    let value = any_value::Value::StringValue("prod".into());
    let attributes = vec![KeyValue {
        key: "deployment.environment".into(),
        value: Some(PbValue { value: Some(value) }),
        ..KeyValue::default()
    }];
    let encoded = PbResource { attributes, ..PbResource::default() }.encode_to_vec();
    Resource { encoded, service_name: "shop".into() }
}

fn check(expression: &str, expected: Selected) {
    let call = |name| ToolCall { name: Cow::Borrowed(name), ..ToolCall::default() };
    let trajectory = Trajectory {
        resource: Arc::new(resource()),
        span_name: "run".into(),
        attributes: vec![
            ("case.id", AnyValue::String("refund-1")),
            ("n", AnyValue::Int(3)),
            ("broken", AnyValue::Array(b"\x0a\x01\x0b")),
            ("metadata", AnyValue::String(r#"{"case": "Oslo", "tags": ["a"]}"#)),
        ],
        user_input: Content::Recorded(Lazy::ready(Value::from("refund order 7"))),
        tool_calls: vec![call("search"), call("issue_refund")],
        // Two spans: `run`, internal, unset; `db`, a client's, failed, with one attribute.
        spans: vec![
            b"\x12\x03run\x1a\x02\x01\x00",
            b"\x0a\x0b\x0a\x02db\x12\x05\x0a\x03sql\x12\x02db\x1a\x02\x03\x02",
        ],
        ..Trajectory::default()
    };
    let when = When::compile(expression).expect(expression);
    let scope = Scope::new(&trajectory, when.reads());
    assert_eq!(when.selects(&scope), expected, "{expression}");
    if expected != Selected::Error {
        assert!(When::compile_condition(expression).is_ok(), "{expression}");
    }
}

#[test]
fn expression_names_a_case_by_text_or_whole_number() {
    let trajectory = Trajectory {
        attributes: vec![("case.id", AnyValue::String("refund-1")), ("n", AnyValue::Int(3))],
        ..Trajectory::default()
    };
    let scope = Scope::new(&trajectory, Reads::default());
    let text = |expression| When::compile(expression).expect(expression).text(&scope);
    assert_eq!(text(r#"attributes["case.id"]"#).as_deref(), Some("refund-1"));
    assert_eq!(text(r#"attributes.n"#).as_deref(), Some("3"));
    assert_eq!(text(r#"attributes["none"]"#), None);
    assert_eq!(text("attributes.n > 2"), None);
}

#[test]
fn expressions_read_all_spans() {
    check("size(spans) == 2", Selected::Yes);
    check(r#"spans.exists(s, s.kind == "client" && s.status == "error")"#, Selected::Yes);
    check(r#"spans.exists(s, s.name == "db" && s.attributes["db"] == "sql")"#, Selected::Yes);
    check(r#"spans.all(s, s.status == "unset")"#, Selected::No);
    check(r#"spans[0].attributes["db"] == "sql""#, Selected::No);
    assert!(When::compile_condition("spans").is_err());
    assert!(When::compile("size(spans) == 2").expect("CEL").facts().spans);
    assert!(!When::compile("size(tool_names) == 2").expect("CEL").facts().spans);
}

#[test]
fn a_list_of_spans_takes_steps_for_its_bytes() {
    let long = [b"\x12\xff\x7f".as_slice(), &[b'x'; 0x3fff]].concat();
    let trajectory = Trajectory { spans: vec![&long; 8], ..Trajectory::default() };
    let when = When::compile("size(spans) == 8").expect("CEL");
    let selected = |steps: usize| {
        let scope = Scope { steps: StepsLeft::new(steps), ..Scope::new(&trajectory, when.reads()) };
        when.selects(&scope)
    };
    assert_eq!(selected(8 * 0x4000 / BYTES_PER_STEP), Selected::TooExpensive);
    assert_eq!(selected(8 * 0x4000), Selected::Yes);
}

#[test]
fn expressions_select_by_what_the_trace_carries() {
    check(r#"service_name == "shop" && attributes["case.id"] == "refund-1""#, Selected::Yes);
    check(r#"attributes["case.id"].startsWith("refund") && attributes.n > 2"#, Selected::Yes);
    check(r#"resource["deployment.environment"] == "prod""#, Selected::Yes);
    check(r#""issue_refund" in tool_names && size(tool_names) == 2"#, Selected::Yes);
    check(r#"tool_names.exists(t, t.matches("^issue"))"#, Selected::Yes);
    check(r#"agent_name == """#, Selected::Yes);
    check(r#"service_name == "bank""#, Selected::No);
    check(r#"attributes["absent"] == "x""#, Selected::No);
    check(r#"has(attributes.absent)"#, Selected::No);
    check(r#"has(attributes.broken)"#, Selected::No);
    check(r#"size(attributes.broken) == 0"#, Selected::No);
    check(r#"attributes["case.id"] > 3"#, Selected::Error);
    check(r#"service_name"#, Selected::Error);
}

#[test]
fn json_texts_are_looked_into() {
    check(r#"json(attributes["metadata"]).case == "Oslo""#, Selected::Yes);
    check(r#"attributes["metadata"].case == "Oslo""#, Selected::Yes);
    check(r#"attributes.metadata.tags[0] == "a""#, Selected::Yes);
    check(r#"attributes.metadata["tags"][0] == "a""#, Selected::Yes);
    check(r#"json(attributes.metadata).tags.exists(t, t == "a")"#, Selected::Yes);
    check(r#"has(attributes.metadata.case) && has(attributes.metadata)"#, Selected::Yes);
    check(r#"attributes["metadata"] == "{\"case\": \"Oslo\", \"tags\": [\"a\"]}""#, Selected::Yes);
    check(r#"attributes.metadata.startsWith("{")"#, Selected::Yes);
    check(r#"json(attributes["case.id"]).case == "Oslo""#, Selected::No);
    check(r#"json(attributes["absent"]).case == "Oslo""#, Selected::No);
    check(r#"json(resource["deployment.environment"]).case == "Oslo""#, Selected::No);
    check(r#"attributes["metadata"].absent == "x""#, Selected::No);
    check(r#"user_input.contains("refund") && final_output == """#, Selected::Yes);
    for text in ["json(user_input).case", "json(attributes).case", "json()"] {
        assert_eq!(When::compile(text).err(), Some(WhenError::NoAttribute), "{text}");
    }
}

#[test]
fn json_text_beyond_a_limit_makes_its_key_missing() {
    let check = |text: String, expected| {
        let trajectory = Trajectory {
            attributes: vec![("metadata", AnyValue::String(&text))],
            ..Trajectory::default()
        };
        let when = When::compile(r#"json(attributes["metadata"]).case == "a""#).unwrap();
        assert_eq!(
            when.selects(&Scope::new(&trajectory, Reads::default())),
            expected,
            "{}",
            text.len()
        );
    };
    let nested = |levels: usize| {
        let open = "[".repeat(levels);
        let close = "]".repeat(levels);
        format!(r#"{{"case": "a", "more": {open}{close}}}"#)
    };
    let long = |bytes: usize| format!(r#"{{"case": "a", "more": "{}"}}"#, "x".repeat(bytes));
    check(nested(31), Selected::Yes);
    check(nested(32), Selected::No);
    check(long(60_000), Selected::Yes);
    check(long(66_000), Selected::No);
}

#[test]
fn json_text_is_parsed_once_and_counted() {
    let text = format!(r#"{{"case": "a", "more": "{}"}}"#, "x".repeat(40_000));
    let attributes = vec![("metadata", AnyValue::String(text.as_str()))];
    let trajectory = Trajectory { attributes, ..Trajectory::default() };
    let when = When::compile(r#"json(attributes["metadata"]).case == "a""#).unwrap();
    let scope = Scope::with_steps(&trajectory, 100_000);
    let taken = || {
        let before = scope.steps_left().left();
        assert_eq!(when.selects(&scope), Selected::Yes);
        before - scope.steps_left().left()
    };
    let first = taken();
    let second = taken();
    assert!(first > 10_000 && second < 1_000, "{first}, then {second}");
    let short = Scope::with_steps(&trajectory, 5_000);
    assert_eq!(when.selects(&short), Selected::TooExpensive);
}

#[test]
fn mistakes_are_found_when_the_config_is_read() {
    let error = |text: &str| When::compile(text).err();
    assert!(matches!(error("service_name =="), Some(WhenError::Syntax { .. })));
    assert_eq!(
        error("servicename == 'x'"),
        Some(WhenError::UnknownName { name: "servicename".into() })
    );
    for text in ["len(tool_names) > 2", "tool_names.len() > 2", "[1].len(agent_name) == 1"] {
        assert_eq!(error(text), Some(WhenError::UnknownFunction { name: "len".into() }), "{text}");
    }
    for text in ["size(tool_names) > 2", "agent_name.size() > 2", "agent_name.endsWith('x')"] {
        assert_eq!(error(text), None, "{text}");
    }
}

#[test]
fn a_sample_is_stable_and_close_to_its_share() {
    let ids = (0..10_000u64).map(|n| {
        let mut id = [0; 16];
        id[8..].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        TraceId(id)
    });
    let taken = ids.filter(|id| Randomness::of_trace(*id).is_sampled(0.25)).count();
    assert!((2_300..2_700).contains(&taken), "{taken}");
    assert!(Randomness::of_trace(TraceId([0xff; 16])).is_sampled(1.0));
    assert!(!Randomness::of_trace(TraceId([0; 16])).is_sampled(0.0));
    let key = |n: u32| SessionKey {
        service_name: Some("shop".into()),
        session_id: n.to_string().into(),
        group: Default::default(),
    };
    let sessions = (0..10_000).filter(|n| Randomness::of_session(&key(*n)).is_sampled(0.25));
    let taken = sessions.count();
    assert!((2_300..2_700).contains(&taken), "{taken}");
}
