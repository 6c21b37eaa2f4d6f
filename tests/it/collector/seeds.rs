//! Every example that the documents of the UiPath tool evaluators print, over the wire: spans in
//! by gRPC, the printed score out as an event. One collector holds the evaluators of all.

use serde_json::{Map, Value, json};

use crate::support::collector::Running;
use crate::support::spans::{agent, request, text, tool, with};

const SEEDS: &[(&str, &str)] = &[
    ("tool_call_args", include_str!("../../fixtures/seeds/tool_call_args.json")),
    ("tool_call_count", include_str!("../../fixtures/seeds/tool_call_count.json")),
    ("tool_call_order", include_str!("../../fixtures/seeds/tool_call_order.json")),
    ("tool_call_output", include_str!("../../fixtures/seeds/tool_call_output.json")),
];

/// Name of the evaluator, and the example.
fn examples() -> Vec<(String, Value)> {
    let all = SEEDS.iter().flat_map(|(kind, text)| {
        let examples: Vec<Value> = serde_json::from_str(text).unwrap();
        examples.into_iter().map(move |example| {
            (format!("{kind}/{}", example["example"].as_str().unwrap()), example)
        })
    });
    all.collect()
}

/// The example's settings and criteria as they are, and a `when` that selects its trace.
fn config(examples: &[(String, Value)]) -> String {
    let evaluators = examples.iter().map(|(name, example)| {
        let mut settings = example["settings"].as_object().unwrap().clone();
        settings.insert("when".into(), format!("attributes['case.id'] == '{name}'").into());
        if !example["criteria"].is_null() {
            settings.insert("criteria".into(), example["criteria"].clone());
        }
        (name.clone(), Value::Object(settings))
    });
    json!({ "evaluators": evaluators.collect::<Map<_, _>>() }).to_string()
}

#[tokio::test]
async fn every_printed_example_gives_the_printed_score_over_the_wire() {
    let examples = examples();
    assert_eq!(examples.len(), 24);
    let running = Running::start(&config(&examples)).await;
    for (trace, (name, example)) in (1..).zip(&examples) {
        let mut spans = vec![with(agent(trace), "case.id", name)];
        for (id, span) in (2..).zip(example["spans"].as_array().unwrap()) {
            let attributes = span["attributes"].as_object().unwrap();
            let mut call = tool(trace, id, span["name"].as_str().unwrap());
            call.attributes =
                attributes.iter().map(|(key, value)| text(key, value.as_str().unwrap())).collect();
            spans.push(call);
        }
        assert_eq!(running.send(request(spans)).await.0, 0);
    }
    let events = running.events(examples.len()).await;
    for ((trace, (name, example)), event) in (1..).zip(&examples).zip(&events) {
        assert_eq!((event.trace(), event.name()), (trace, name.as_str()));
        let printed: f64 = example["printed"].as_str().unwrap().parse().unwrap();
        // The documents print two thirds as 0.66.
        let expected = if printed == 0.66 { 2.0 / 3.0 } else { printed };
        assert_eq!(event.score(), Some(expected), "{name}");
    }
    assert_eq!(running.judged().await.len(), examples.len());
}
