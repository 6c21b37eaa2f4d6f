//! Eval sets of the Agent Development Kit, in the current and the previous format.

use super::{CaseTurn, Lines, Mistake, NamedCase, ROWS_MAX, Row, field, list, name_of, push};
use spanscore_base::value::{Map, Value};
use spanscore_evaluate::Kind;
use spanscore_evaluate::engine::expect::case::Case;

/// Reads the eval set of the Agent Development Kit: `google/adk-python`, `evaluation/eval_case.py`.
/// The calls of all turns of a case are expected in order, and the answer of the last turn.
pub(super) fn rows(
    set: &Value<'_>,
    text: &str,
    kind: &Kind,
    mistakes: &mut Vec<Mistake>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut lines = Lines::new(text);
    for case in list(set, "eval_cases").iter().take(ROWS_MAX + 1) {
        let name = field(case, "eval_id").and_then(name_of);
        let line = name.as_deref().and_then(|name| lines.of(name));
        let row = name.ok_or_else(|| "a case has no `eval_id`".to_owned()).map(|name| {
            let said = |turn: &Value<'_>| texts(field(turn, "user_content")?);
            named(name, list(case, "conversation"), kind, &said, &add_turn)
        });
        push(row, line, &mut rows, mistakes);
    }
    rows
}

/// Reads the format from before version 1.0 (`evaluation/local_eval_sets_manager.py` converts it):
/// a list of named cases.
pub(super) fn rows_of_list(
    cases: &[Value<'_>],
    text: &str,
    kind: &Kind,
    mistakes: &mut Vec<Mistake>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut lines = Lines::new(text);
    for case in cases.iter().take(ROWS_MAX + 1) {
        let name = case.get("name").and_then(name_of);
        let line = name.as_deref().and_then(|name| lines.of(name));
        let turns = case.get("data").and_then(Value::as_list);
        let row = match (name, turns) {
            (Some(name), Some(turns)) => {
                let said = |turn: &Value<'_>| turn.get("query")?.as_str().map(str::to_owned);
                Ok(named(name, turns, kind, &said, &add_old_turn))
            }
            _ if case.get("query").is_some() => {
                Err("turns stand in a case: write [{\"name\": NAME, \"data\": [...]}]".to_owned())
            }
            _ => Err("a case of the list has neither `id` and `criteria`, nor `name` and `data`"
                .to_owned()),
        };
        push(row, line, &mut rows, mistakes);
    }
    rows
}

/// Returns a case with the criteria of all its turns together, and of each if there are several.
/// `said` finds the user's input in a turn, `add` adds its expectations.
fn named(
    name: String,
    turns: &[Value<'_>],
    kind: &Kind,
    said: &dyn Fn(&Value<'_>) -> Option<String>,
    add: &dyn Fn(&Value<'_>, &mut Case),
) -> (NamedCase, Option<Value<'static>>) {
    let mut expected = Case::default();
    turns.iter().for_each(|turn| add(turn, &mut expected));
    let single = |(number, turn): (usize, &Value<'_>)| {
        let mut expected = Case::default();
        add(turn, &mut expected);
        Some(CaseTurn { number, user_input: said(turn)?, criteria: expected.criteria(kind) })
    };
    let is_several = turns.len() > 1;
    let case = NamedCase {
        names: vec![name],
        user_input: turns.first().and_then(said),
        turns: (1..).zip(turns).filter(|_| is_several).filter_map(single).collect(),
    };
    (case, expected.criteria(kind))
}

fn add_old_turn(turn: &Value<'_>, case: &mut Case) {
    for call in list(turn, "expected_tool_use") {
        let name = call.get("tool_name").and_then(Value::as_str).unwrap_or_default();
        case.calls.push((name.to_owned(), object(call.get("tool_input"))));
        if let Some(output) = call.get("mock_tool_output").filter(|output| !output.is_null()) {
            case.results.push((name.to_owned(), output.clone().into_owned()));
        }
    }
    case.turn_ends.push(case.calls.len());
    if let Some(answer) = turn.get("reference").and_then(Value::as_str) {
        case.answer = Some(answer.to_owned());
    }
}

/// Returns the arguments, by default an empty object.
fn object(arguments: Option<&Value<'_>>) -> Value<'static> {
    let arguments = arguments.filter(|arguments| !arguments.is_null()).cloned();
    arguments.map_or_else(|| Value::Map(Map::new()), Value::into_owned)
}

fn add_turn(turn: &Value<'_>, case: &mut Case) {
    let part_lists = |content: Option<&Value<'_>>, visit: &mut dyn FnMut(&Value<'_>)| {
        content.into_iter().flat_map(|content| list(content, "parts")).for_each(visit);
    };
    if let Some(data) = field(turn, "intermediate_data") {
        list(data, "tool_uses").iter().for_each(|call| add_call(call, case));
        list(data, "tool_responses").iter().for_each(|result| add_result(result, case));
        for event in list(data, "invocation_events") {
            part_lists(event.get("content"), &mut |part| {
                field(part, "function_call").into_iter().for_each(|call| add_call(call, case));
                let results = field(part, "function_response");
                results.into_iter().for_each(|result| add_result(result, case));
            });
        }
    }
    case.turn_ends.push(case.calls.len());
    let mut answer = String::new();
    part_lists(field(turn, "final_response"), &mut |part| {
        answer.push_str(part.get("text").and_then(Value::as_str).unwrap_or_default());
    });
    if !answer.is_empty() {
        case.answer = Some(answer);
    }
}

/// Returns the joined texts of a content; `None` without any.
fn texts(content: &Value<'_>) -> Option<String> {
    let texts = list(content, "parts").iter().filter_map(|part| part.get("text")?.as_str());
    Some(texts.collect::<String>()).filter(|text| !text.is_empty())
}

fn add_call(call: &Value<'_>, case: &mut Case) {
    let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
    case.calls.push((name.to_owned(), object(call.get("args"))));
}

fn add_result(result: &Value<'_>, case: &mut Case) {
    let name = result.get("name").and_then(Value::as_str).unwrap_or_default();
    if let Some(response) = result.get("response") {
        case.results.push((name.to_owned(), response.clone().into_owned()));
    }
}
