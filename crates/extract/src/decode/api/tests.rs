//! Each shape parses its fixture: a request body and a response body.

use std::fs;
use std::path::Path;

use super::super::Decoded;
use super::super::messages::Messages;
use super::shapes::SHAPES;
use spanscore_base::value::{Value, json};

/// Reads a body; returns a line per call and result.
fn read(body: &Value<'_>) -> Vec<String> {
    let messages = Messages::read(body.clone());
    let calls = messages.calls.iter().map(|call| {
        let arguments = match &call.arguments {
            Decoded::Value(value) => value.to_string(),
            Decoded::Unreadable(text) => format!("unreadable {text}"),
        };
        format!("call {} {} {arguments}", call.id.as_deref().unwrap_or("-"), call.name)
    });
    let results = messages.results.iter().map(|result| {
        let failed = if result.is_error { " failed" } else { "" };
        let id = if result.id.is_empty() { "-" } else { &*result.id };
        format!("result {id} {}{failed}", result.value)
    });
    calls.chain(results).collect()
}

#[test]
fn every_shape_reads_the_bodies_of_its_fixture() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bodies");
    let mut wrong = String::new();
    for shape in &SHAPES {
        let path = folder.join(format!("{}.json", shape.name));
        let text = fs::read_to_string(&path).expect(shape.name);
        let fixture = json::parse(&text).expect(shape.name);
        for body in ["request", "response"] {
            let Some(part) = fixture.get(body) else { continue };
            let expected = part.get("expected").and_then(Value::as_list).expect("a list");
            let expected: Vec<&str> = expected.iter().filter_map(Value::as_str).collect();
            let found = read(part.get("body").expect("a body"));
            if found != expected {
                wrong.push_str(&format!("{} {body}:\n  {}\n", shape.name, found.join("\n  ")));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
