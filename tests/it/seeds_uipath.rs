//! Every example that the documents of the UiPath tool evaluators print, with the printed score.
//!
//! `fixtures/seeds/tool_call_*.json`: spans with their attributes, settings, criteria, the score
//! and its printed form.

use spanscore_base::model::{Content, Outcome, ToolCall, Trajectory};
use spanscore_base::settings::Node;
use spanscore_base::value::{Value, json, python};
use spanscore_evaluate::{Want, kind};

const EXAMPLES: &[(&str, &str, usize)] = &[
    ("tool_call_args", include_str!("../fixtures/seeds/tool_call_args.json"), 6),
    ("tool_call_count", include_str!("../fixtures/seeds/tool_call_count.json"), 7),
    ("tool_call_order", include_str!("../fixtures/seeds/tool_call_order.json"), 6),
    ("tool_call_output", include_str!("../fixtures/seeds/tool_call_output.json"), 5),
];

/// Form of a result in the trajectory: the content as text, or decoded.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Decoded,
}

fn call<'a>(attributes: &'a Value<'a>, form: Form) -> ToolCall<'a> {
    let text = |key| attributes.get(key).and_then(Value::as_str);
    let arguments = text("input.value").map(|text| {
        Content::ready(json::parse(text).ok().or_else(|| python::parse_literal(text)).unwrap())
    });
    let result = text("output.value").map(|text| {
        let mut envelope = json::parse(text).unwrap();
        let Value::Map(map) = &mut envelope else { panic!("{envelope} is no envelope") };
        let content = map.remove("content").unwrap();
        Content::ready(match form {
            Form::Text => content,
            Form::Decoded => json::parse(content.as_str().unwrap()).unwrap().into_owned(),
        })
    });
    ToolCall {
        name: text("tool.name").unwrap().into(),
        arguments: arguments.unwrap_or_default(),
        result: result.unwrap_or_default(),
        ..ToolCall::default()
    }
}

fn check(name: &str, example: &Value<'_>, form: Form) {
    let mut settings = example.get("settings").and_then(Value::as_map).cloned().unwrap();
    settings.insert("criteria", example.get("criteria").cloned().unwrap());
    let node = Node::from_value(&Value::Map(settings));
    let evaluator = (kind(name).unwrap().build)(&node).unwrap();
    let spans = example.get("spans").and_then(Value::as_list).unwrap();
    let calls = spans.iter().map(|span| call(span.get("attributes").unwrap(), form));
    let trajectory = Trajectory { tool_calls: calls.collect(), ..Trajectory::default() };
    let expected = example.get("score").and_then(Value::as_number).unwrap().as_f64();
    for want in [Want::ALL, Want::SCORE] {
        match evaluator.as_code().unwrap().evaluate(&trajectory, want) {
            Outcome::Scored(score) => assert_eq!(score.value, expected, "{example}"),
            other => panic!("{other:?}: {example}"),
        }
    }
}

#[test]
fn every_printed_example_gives_the_printed_score() {
    for (name, text, count) in EXAMPLES {
        let examples = json::parse(text).unwrap();
        assert_eq!(examples.as_list().unwrap().len(), *count);
        for example in examples.as_list().unwrap() {
            check(name, example, Form::Text);
            check(name, example, Form::Decoded);
        }
    }
}
