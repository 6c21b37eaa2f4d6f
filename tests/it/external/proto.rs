//! The generated messages and the JSON that is written by hand against the file of the protocol,
//! with an independent implementation of protobuf and of its JSON.

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use prost_types::value::Kind;
use prost_types::{FileDescriptorSet, Struct, Timestamp, Value};
use spanscore_evaluate::external::json;
use spanscore_evaluate::external::proto::{
    CallEnd, CallMessage, ContentMessage, ContentState, DefinitionMessage, DescribeRequest,
    DescribeResponse, EvaluateRequest, EvaluateResponse, EvaluationMessage, FailureMessage,
    NeededPart, OutcomeMessage, SaidMessage, ScoreMessage, ServedKind, TaskLevel, TaskMessage,
    TrajectoryMessage,
};

const PACKAGE: &str = "spanscore.evaluator.v1";

fn compiled() -> FileDescriptorSet {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let set = protox::compile(["spanscore/evaluator/v1/evaluator.proto"], [root]);
    set.expect("the file compiles")
}

fn pool() -> DescriptorPool {
    DescriptorPool::from_file_descriptor_set(compiled()).expect("a pool")
}

/// Messages that are written as JSON.
const WRITTEN: [&str; 8] = [
    "DescribeRequest", "EvaluateRequest", "Task", "Trajectory", "ToolCall", "ToolDefinition",
    "Message", "Content",
];

/// Fields, or messages with all their fields, that are left out without a value.
const LEFT_OUT: [&str; 11] = [
    "EvaluateRequest.kind",
    "EvaluateRequest.settings_json",
    "Task.id",
    "Task.level",
    "Task.span_id",
    "Task.criteria_json",
    "Trajectory",
    "ToolCall",
    "ToolDefinition",
    "Message",
    "Content",
];

/// Fields whose JSON is not that of their type in Rust, each with the function that writes it.
const WRITERS: [(&str, &str); 8] = [
    ("Task.level", "level"),
    ("Trajectory.usage", "longs"),
    ("Trajectory.attributes", "object_of"),
    ("ToolCall.status", "status"),
    ("ToolCall.start_time", "time"),
    ("ToolCall.end_time", "time"),
    ("Content.state", "state"),
    ("Content.bytes_full", "long"),
];

/// Generates the messages anew.
fn generated() -> String {
    let out = tempfile::tempdir().expect("a folder");
    let mut config = prost_build::Config::new();
    config.btree_map(["."]).out_dir(out.path());
    for message in WRITTEN {
        let json = "#[derive(serde::Serialize)] #[serde(rename_all = \"camelCase\")]";
        config.type_attribute(format!(".{PACKAGE}.{message}"), json);
    }
    for path in LEFT_OUT {
        let skip = "#[serde(skip_serializing_if = \"super::json::is_default\")]";
        config.field_attribute(format!(".{PACKAGE}.{path}"), skip);
    }
    for (path, writer) in WRITERS {
        let with = format!("#[serde(serialize_with = \"super::json::{writer}\")]");
        config.field_attribute(format!(".{PACKAGE}.{path}"), with);
    }
    config.compile_fds(compiled()).expect("it is generated");
    std::fs::read_to_string(out.path().join(format!("{PACKAGE}.rs"))).expect("the messages")
}

/// With `UPDATE_GENERATED=1` the file is written instead.
#[test]
fn the_messages_are_those_that_the_generator_makes_of_the_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/evaluate/src/external/v1.rs");
    let generated = generated();
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(path, &generated).expect("it is written");
    }
    assert_eq!(std::fs::read_to_string(path).expect("it is there"), generated);
}

/// A message of ours as the file describes it.
fn seen(pool: &DescriptorPool, name: &str, message: &impl Message) -> DynamicMessage {
    let descriptor = pool.get_message_by_name(&format!("{PACKAGE}.{name}")).expect(name);
    let seen = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice());
    let seen = seen.expect("it is such a message");
    assert_eq!(seen.unknown_fields().count(), 0, "{name}: {seen:?}");
    seen
}

fn to_json(message: &DynamicMessage) -> serde_json::Value {
    serde_json::to_value(message).expect("it is JSON")
}

fn attributes(text: &str) -> Struct {
    let value = Value { kind: Some(Kind::StringValue(text.to_owned())) };
    Struct { fields: [("key".to_owned(), value)].into() }
}

fn content(text: &str) -> Option<ContentMessage> {
    let (value, state) = (text.to_owned(), ContentState::Truncated as i32);
    Some(ContentMessage { value, json: true, state, bytes_full: 1 << 40 })
}

fn trajectory() -> TrajectoryMessage {
    let call = CallMessage {
        span_id: "a1".to_owned(),
        id: "a2".to_owned(),
        name: "a3".to_owned(),
        agent_name: "a4".to_owned(),
        arguments: content("a5"),
        result: content("a6"),
        error: content("a7"),
        status: CallEnd::Error as i32,
        start_time: Some(Timestamp { seconds: 1_700_000_000, nanos: 1_000_000 }),
        end_time: Some(Timestamp { seconds: 1_700_000_001, nanos: 0 }),
    };
    TrajectoryMessage {
        trace_id: "t1".to_owned(),
        root_span_id: "t2".to_owned(),
        session_id: "t3".to_owned(),
        service_name: "t4".to_owned(),
        agent_name: "t5".to_owned(),
        completion: "t6".to_owned(),
        revision: 7,
        user_input: content("t8"),
        final_output: content("t9"),
        tool_calls: vec![call],
        tool_definitions: vec![DefinitionMessage {
            name: "d1".to_owned(),
            description: "d2".to_owned(),
            input_schema_json: "d3".to_owned(),
        }],
        messages: vec![SaidMessage { role: "m1".to_owned(), content: content("m2") }],
        usage: [("model_calls".to_owned(), 3)].into(),
        attributes: Some(attributes("t14")),
    }
}

#[test]
fn requests_are_those_of_the_file_on_the_wire_and_as_json() {
    let pool = pool();
    let request = EvaluateRequest {
        kind: "k".to_owned(),
        settings_json: "{}".to_owned(),
        tasks: vec![TaskMessage {
            id: "i".to_owned(),
            level: TaskLevel::Session as i32,
            span_id: "s".to_owned(),
            criteria_json: "c".to_owned(),
            trajectories: vec![trajectory()],
        }],
    };
    let theirs = to_json(&seen(&pool, "EvaluateRequest", &request));
    let ours: serde_json::Value = serde_json::from_str(&json::request(&request)).expect("JSON");
    assert_eq!(ours, theirs);
    let call = &theirs["tasks"][0]["trajectories"][0]["toolCalls"][0];
    assert_eq!(call["error"]["value"], "a7", "fields stand where the file has them");
    let described = DescribeRequest { minor: 2, collector_version: "v".to_owned() };
    let theirs = to_json(&seen(&pool, "DescribeRequest", &described));
    let ours: serde_json::Value = serde_json::from_str(&json::request(&described)).expect("JSON");
    assert_eq!(ours, theirs);
}

fn evaluation(outcome: OutcomeMessage) -> EvaluationMessage {
    EvaluationMessage {
        task_id: "e1".to_owned(),
        name: "e2".to_owned(),
        span_id: "e3".to_owned(),
        outcome: Some(outcome),
        explanation: "e7".to_owned(),
        details: Some(attributes("e8")),
        usage: [("tokens".to_owned(), 9)].into(),
        cost_usd: 0.5,
    }
}

#[test]
fn answers_in_the_json_of_others_are_read_as_they_are_on_the_wire() {
    let pool = pool();
    let failure =
        FailureMessage { r#type: "f1".to_owned(), message: "f2".to_owned(), retryable: true };
    let label = Some("fail".to_owned());
    let response = EvaluateResponse {
        evaluations: vec![
            evaluation(OutcomeMessage::Scored(ScoreMessage { value: 0.25, label })),
            evaluation(OutcomeMessage::Scored(ScoreMessage { value: 0.0, label: None })),
            evaluation(OutcomeMessage::NotEvaluable("why".to_owned())),
            evaluation(OutcomeMessage::Failed(failure)),
        ],
    };
    let theirs = to_json(&seen(&pool, "EvaluateResponse", &response)).to_string();
    assert_eq!(json::evaluate_response(theirs.as_bytes()), Ok(response));
    let kind = ServedKind {
        name: "k1".to_owned(),
        version: "k2".to_owned(),
        settings_schema: "k3".to_owned(),
        levels: [TaskLevel::Call, TaskLevel::Trace, TaskLevel::Session].map(|it| it as i32).into(),
        needs: (NeededPart::UserInput as i32..=NeededPart::Attributes as i32).collect(),
        batch_max: 6,
    };
    let response = DescribeResponse { minor: 1, kinds: vec![kind] };
    let theirs = to_json(&seen(&pool, "DescribeResponse", &response)).to_string();
    assert_eq!(json::describe_response(theirs.as_bytes()), Ok(response));
}

/// The example in Rust holds what the generator made of the file; that is as old as its last run.
#[test]
fn the_example_in_rust_speaks_all_of_the_protocol() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/evaluators/rust/src/v1.rs");
    let code = std::fs::read_to_string(root).expect("it is there");
    for message in pool().all_messages().filter(|it| it.package_name() == PACKAGE) {
        for field in message.fields().filter(|_| !message.is_map_entry()) {
            let (name, tag) = (field.name(), format!("tag = \"{}\"", field.number()));
            let own = format!("pub struct {} {{", message.name());
            let (_, body) = code.split_once(&own).unwrap_or_else(|| panic!("{own}"));
            let body = body.split("\n}").next().expect("its end");
            if let Some(choice) = field.containing_oneof().filter(|it| !it.is_synthetic()) {
                assert!(body.contains(&format!("pub {}:", choice.name())), "{name} of {own}");
                continue;
            }
            let field = body.split("#[prost(").find(|part| {
                let word = if name == "type" { "r#type" } else { name };
                part.contains(&format!("pub {word}:"))
            });
            assert!(field.is_some_and(|part| part.contains(&tag)), "{name} = {tag} of {own}");
        }
    }
}
