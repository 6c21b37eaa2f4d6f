//! Tests of answers against `openapi.json`.

use serde_json::{Value, json};

use super::{Harness, filled};
use crate::question::Takes;
use crate::router::{OPENAPI, PREFIX};
use crate::routes::ROUTES;
use crate::stream;

fn description() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// Forbids undescribed fields.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.contains_key("properties") && !map.contains_key("additionalProperties") {
                map.insert("additionalProperties".to_owned(), json!(false));
            }
            map.values_mut().for_each(strict);
        }
        Value::Array(items) => items.iter_mut().for_each(strict),
        _ => {}
    }
}

/// Checks a value against a named schema.
pub(super) fn check(schema: &str, value: &Value, place: &str) {
    let mut components = description()["components"].take();
    strict(&mut components["schemas"]);
    let reference = format!("#/components/schemas/{schema}");
    let schema = json!({ "$ref": reference, "components": components });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{place}: {errors:?}\n{value:#}");
}

/// Returns the name of the schema of an answer.
fn schema_of(description: &Value, path: &str) -> String {
    schema_of_method(description, path, "get")
}

/// Returns the name of the schema of an answer to a method.
fn schema_of_method(description: &Value, path: &str, method: &str) -> String {
    let answer = &description["paths"][path][method]["responses"]["200"]["content"];
    let reference = answer["application/json"]["schema"]["$ref"].as_str().unwrap_or_default();
    reference.rsplit('/').next().unwrap().to_owned()
}

#[test]
fn routes_and_their_parameters_are_those_of_the_description() {
    let description = description();
    let own = |path: &str| format!("{PREFIX}{path}");
    let mut known: Vec<(String, Takes)> =
        ROUTES.iter().map(|route| (own(route.path), route.takes)).collect();
    let nothing = Takes { filter: false, others: &[], groups_max: 0 };
    known.push((own("/status"), nothing));
    known.push((own("/stream"), stream::TAKES));
    known.push((own("/openapi.json"), nothing));
    let described = description["paths"].as_object().unwrap().iter();
    let described: Vec<&String> =
        described.filter(|(_, it)| it["get"].is_object()).map(|(path, _)| path).collect();
    let mut paths: Vec<&String> = known.iter().map(|(path, _)| path).collect();
    let mut sorted = described.clone();
    sorted.sort();
    paths.sort();
    assert_eq!(sorted, paths);
    for (path, takes) in &known {
        let parameters = description["paths"][path]["get"]["parameters"].as_array();
        let parameters = parameters.into_iter().flatten().map(|it| match it["$ref"].as_str() {
            Some(reference) => {
                let name = reference.rsplit('/').next().unwrap();
                description["components"]["parameters"][name].clone()
            }
            None => it.clone(),
        });
        let query = parameters.filter(|it| it["in"] == "query");
        let mut names: Vec<String> =
            query.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        let mut taken = takes.names();
        names.sort();
        taken.sort_unstable();
        assert_eq!(names, taken, "{path}");
    }
}

#[test]
fn examples_are_valid() {
    let description = description();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let answer = &methods[method]["responses"]["200"]["content"];
            if let Some(example) = answer["application/json"].get("example") {
                check(&schema_of_method(&description, path, method), example, path);
            }
        }
    }
}

#[tokio::test]
async fn answers_are_valid() {
    let harness = Harness::filled();
    let description = description();
    let trace = format!("/traces/{}", filled::trace_id(41));
    let cases = [
        ("/traces", "/traces?sort=worst&limit=3"),
        ("/traces/{trace_id}", trace.as_str()),
        ("/evaluations", "/evaluations?label=fail"),
        ("/sessions", "/sessions?limit=2"),
        ("/calls", "/calls?limit=3&tool=refund"),
        ("/tools", "/tools"),
        ("/tools", "/tools?session_id=s-1"),
        ("/argument_errors", "/argument_errors?tool=refund"),
        ("/evaluators", "/evaluators?from=-1d"),
        ("/evaluators/{kind}/{name}", "/evaluators/tool_call_args/other"),
        ("/summary", "/summary?from=-1h&group_by=evaluator,version"),
        ("/series", "/series?group_by=evaluator"),
        ("/distribution", "/distribution?tool=!x"),
        ("/compare", "/compare?a=version%3D1.4.0&b=version%3D1.5.0"),
        ("/agreement", "/agreement?from=-1h"),
        ("/status", "/status"),
    ];
    for (path, asked) in cases {
        let schema = schema_of(&description, &format!("{PREFIX}{path}"));
        check(&schema, &harness.json(asked).await, asked);
    }
    let described = description["paths"].as_object().unwrap().values();
    let described = described.filter(|it| it["get"].is_object()).count();
    let mut asked: Vec<_> = cases.iter().map(|(path, _)| path).collect();
    asked.dedup();
    // Except the stream, the description itself, and the changes of people: `editing.rs`.
    assert_eq!(asked.len(), described - 6);
    assert_eq!(harness.json("/openapi.json").await, description);
}

#[tokio::test]
async fn problems_name_the_parameter_and_the_word_that_was_meant() {
    let harness = Harness::filled();
    let check = async |path: &str, status: u16, kind: &str, words: &str| {
        let answer = harness.ask(path).await;
        assert_eq!(answer.problem(), (status, kind.to_owned()), "{path}: {}", answer.text);
        assert!(answer.text.contains(words), "{path}: {}", answer.text);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        self::check("Problem", &answer.json(), path);
    };
    check("/traces?labl=fail", 400, "unknown_parameter", r#""nearest":"label""#).await;
    check("/traces?label=fial", 400, "bad_value", r#""nearest":"fail""#).await;
    check("/traces?label=!fial", 400, "bad_value", r#""parameter":"label""#).await;
    check("/traces?completion=x", 400, "bad_value", "root_ended").await;
    check("/traces?sort=newst", 400, "bad_value", r#""nearest":"newest""#).await;
    check("/traces?from=soon", 400, "bad_value", r#""parameter":"from""#).await;
    check("/traces?score_gte=x", 400, "bad_value", "is no number").await;
    check("/traces?score_lt=inf", 400, "bad_value", "is no number").await;
    check("/traces?trace_id=%25", 400, "bad_value", "hexadecimal").await;
    check("/evaluations?sort=worst", 400, "unknown_parameter", "sort").await;
    check("/summary?group_by=evaluatr", 400, "bad_value", "did you mean `evaluator`?").await;
    check("/traces/12", 400, "bad_value", "at least 4").await;
    check("/traces/ffffffff", 404, "not_found", "no trace").await;
    check("/evaluators/a/b", 404, "not_found", "no evaluator `a/b`").await;
    check("/compare?a=version%3D1", 400, "bad_value", "`b` is missing").await;
    check("/compare?a=versio%3D1&b=", 400, "unknown_parameter", "version").await;
    check("/series?from=-1h&to=-2h", 400, "bad_value", "not before").await;
    check("/nothing", 404, "not_found", "openapi.json").await;
    check("/status?x=1", 400, "unknown_parameter", "x").await;
}

#[tokio::test]
async fn the_requests_of_the_documentation_are_answered() {
    let page = include_str!("../../../../docs/api.md");
    let harness = Harness::filled();
    let read = page.lines().filter(|line| !line.contains("--data-binary"));
    let asked = read.filter_map(|line| line.split_once("\"$api")?.1.split('"').next());
    let asked: Vec<String> = asked
        .filter(|path| !path.starts_with("/stream"))
        .map(|path| path.replace("5b8aa5a2", &filled::trace_id(41).to_string()[..8]))
        .collect();
    assert_eq!(asked.len(), 5);
    for path in asked {
        harness.json(&path).await;
    }
}
