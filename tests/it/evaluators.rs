//! Each kind of evaluator against its fixtures, and its example against the config.
//!
//! A fixture is a YAML file under `tests/fixtures/evaluators/<kind>/`: `source` names where the
//! expected answers come from, `settings` are common to its `cases`. A case has a `name`, `calls`
//! (those with the same `group` were made together; `message_place` is that among all calls that
//! messages list), further facts of the trajectory (of a session
//! the starts of its turns), `settings` of its own, and what is expected: a `score`, the reason why
//! it is `not_evaluable`, or the error that it `failed` with. For kinds that ask a judge, `answers`
//! are what it says to the statements that are asked, or `reply` is its whole reply, and `asked`
//! how many statements are asked: none where code knows.

use std::path::{Path, PathBuf};

use spanscore::config::{ConfigPart, ResolvedConfig, load};
use spanscore_base::model::{
    CallStatus, Content, Outcome, ToolCall, ToolDefinition, Trajectory, Usage, Want,
};
use spanscore_base::settings::Node;
use spanscore_base::value::{Map, Value};
use spanscore_evaluate::inquiry::{JudgeAnswer, JudgeAnswers, PromptRoom};
use spanscore_evaluate::shared::within_group::by_message;
use spanscore_evaluate::{Evaluator, KINDS, Kind, kind};

fn yaml(name: &str, text: String) -> Value<'static> {
    let part = ConfigPart::Text { name: name.to_owned(), text };
    match load(&[part], &|_| None) {
        Ok(loaded) => loaded.node.to_value(),
        Err(error) => panic!("{name}: {error}"),
    }
}

fn list<'v>(value: &'v Value<'static>, key: &str) -> &'v [Value<'static>] {
    value.get(key).and_then(Value::as_list).unwrap_or_default()
}

fn text<'v>(value: &'v Value<'static>, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

fn number(value: &Value<'static>, key: &str) -> Option<f64> {
    value.get(key).and_then(Value::as_number).map(|number| number.as_f64())
}

fn content(value: Option<&Value<'static>>) -> Content<'static> {
    value.map_or(Content::NotRecorded, |value| Content::ready(value.clone()))
}

fn tool_call(call: &Value<'static>) -> ToolCall<'static> {
    let ns = |key| number(call, key).map_or(0, |ms| (ms * 1e6) as u64);
    ToolCall {
        name: text(call, "name").unwrap_or_default().to_owned().into(),
        arguments: content(call.get("arguments")),
        result: content(call.get("result")),
        error: text(call, "error").map(|text| text.to_owned().into()),
        status: match text(call, "status") {
            Some("error") => CallStatus::Error,
            Some("unknown") => CallStatus::Unknown,
            _ => CallStatus::Ok,
        },
        start_ns: ns("start_ms"),
        end_ns: ns("end_ms"),
        group: number(call, "group").map_or(0, |group| group as u32),
        message_place: number(call, "message_place").map(|place| place as u32),
        ..ToolCall::default()
    }
}

fn definition(tool: &Value<'static>) -> ToolDefinition<'static> {
    ToolDefinition {
        name: text(tool, "name").unwrap_or_default().to_owned().into(),
        description: text(tool, "description").unwrap_or_default().to_owned().into(),
        input_schema: tool.get("inputSchema").cloned().unwrap_or_default(),
        agent: None,
    }
}

pub(crate) fn trajectory(case: &Value<'static>) -> Trajectory<'static> {
    let tokens = |key| number(case, key).map(|count| count as u64);
    Trajectory {
        tool_calls: list(case, "calls").iter().map(tool_call).collect(),
        tool_definitions: list(case, "tools").iter().map(definition).collect(),
        user_input: content(case.get("user_input")),
        final_output: content(case.get("final_output")),
        turn_starts: list(case, "turn_starts_ms")
            .iter()
            .filter_map(|start| start.as_number())
            .map(|start| (start.as_f64() * 1e6) as u64)
            .collect(),
        usage: Usage {
            model_calls: tokens("model_calls"),
            input_tokens: tokens("input_tokens"),
            output_tokens: tokens("output_tokens"),
            ..Usage::default()
        },
        cost: number(case, "cost_usd"),
        ..Trajectory::default()
    }
}

pub(crate) fn settings(fixture: &Value<'static>, case: &Value<'static>) -> Node {
    let of = |value: &Value<'static>| value.get("settings").and_then(Value::as_map).cloned();
    let own = [fixture, case].map(|value| of(value).unwrap_or_default().into_entries());
    Node::from_value(&Value::Map(Map::from_entries(own.concat())))
}

/// The answer in the words of a fixture.
fn answer(kind: &Kind, fixture: &Value<'static>, case: &Value<'static>) -> Map<'static> {
    let evaluator = match (kind.build)(&settings(fixture, case)) {
        Ok(evaluator) => evaluator,
        Err(error) => return [("refused", Value::from(error.message))].into_iter().collect(),
    };
    let mut trajectory = trajectory(case);
    if evaluator.as_judged().is_some() {
        return asked(kind, &evaluator, &trajectory, case);
    }
    let judge = |seen: &mut Trajectory<'static>| judged(&evaluator, seen, fixture, case);
    if evaluator.asks_message_order() {
        by_message(&mut trajectory, judge)
    } else {
        judge(&mut trajectory)
    }
}

/// The answer of a kind that asks a judge, with a judge that says what the case says.
fn asked(
    kind: &Kind,
    evaluator: &Evaluator,
    trajectory: &Trajectory<'static>,
    case: &Value<'static>,
) -> Map<'static> {
    let room = crate::judged::room();
    let words = list(case, "answers").iter().filter_map(Value::as_str);
    let answers: Vec<_> = words.filter_map(JudgeAnswer::from_word).collect();
    let (statements, outcome) = match crate::judged::inquire(evaluator, trajectory, kind.threshold)
    {
        Err(known) => (0, known.outcome),
        Ok(inquiry) => {
            let prompt = inquiry.prompt(&room).expect("it fits");
            for part in list(case, "shows").iter().filter_map(Value::as_str) {
                assert!(prompt.user.contains(part), "{part:?} in {}", prompt.user);
            }
            let (mut vote, mut statements) = (JudgeAnswers::default(), 0);
            let mut rest = &answers[..];
            for window in 0..prompt.windows {
                let room = PromptRoom { window, ..room.clone() };
                let asked = inquiry.prompt(&room).expect("it fits").statements;
                let (own, later) =
                    rest.split_at(if prompt.windows == 1 { rest.len() } else { asked });
                rest = later;
                let reply = text(case, "reply").map(str::to_owned);
                let reply = reply.unwrap_or_else(|| crate::judged::reply(own, false));
                let mut part = match inquiry.read(&room, &reply) {
                    Ok(part) => part,
                    Err(error) => panic!("{error}: {}", prompt.user),
                };
                vote.items.append(&mut part.items);
                vote = JudgeAnswers { items: vote.items, ..part };
                statements += asked;
            }
            (statements, inquiry.conclude(&room, &[vote]).outcome)
        }
    };
    let wanted = number(case, "asked").map(|count| count as usize);
    assert_eq!(wanted.unwrap_or(statements), statements, "statements that are asked");
    let (key, value) = match outcome {
        Outcome::Scored(score) => ("score", Value::from(score.value)),
        Outcome::NotEvaluable { reason, .. } => ("not_evaluable", reason.as_str().into()),
        Outcome::Failed { error_type, .. } => ("failed", error_type.into()),
    };
    [(key, value)].into_iter().collect()
}

fn judged(
    evaluator: &Evaluator,
    trajectory: &Trajectory<'static>,
    fixture: &Value<'static>,
    case: &Value<'static>,
) -> Map<'static> {
    let score_alone = evaluator.as_code().unwrap().evaluate(trajectory, Want::SCORE);
    if let Outcome::Scored(score) = evaluator.as_code().unwrap().evaluate(trajectory, Want::ALL) {
        assert_no_content(fixture, case, &score.explanation.without_content());
    }
    let (key, value) = match evaluator.as_code().unwrap().evaluate(trajectory, Want::ALL) {
        Outcome::Scored(score) => {
            assert!((0.0..=1.0).contains(&score.value), "a score is between 0 and 1");
            assert!(!score.explanation.is_empty(), "an explanation that is wanted is given");
            match score_alone {
                Outcome::Scored(alone) => assert_eq!(score.value.to_bits(), alone.value.to_bits()),
                other => panic!("scored or {other:?}, depending on what is wanted"),
            }
            ("score", Value::from(score.value))
        }
        Outcome::NotEvaluable { reason, .. } => ("not_evaluable", reason.as_str().into()),
        Outcome::Failed { error_type, .. } => ("failed", error_type.into()),
    };
    [(key, value)].into_iter().collect()
}

/// Fails where words that may leave the machine hold a value of an argument or a result, or the
/// name of an argument that neither the settings nor a schema name.
fn assert_no_content(fixture: &Value<'static>, case: &Value<'static>, words: &str) {
    fn texts(value: &Value<'_>, out: &mut Vec<String>) {
        match value {
            Value::String(text) => out.push(text.to_string()),
            Value::List(list) => list.iter().for_each(|item| texts(item, out)),
            Value::Map(map) => map.iter().for_each(|(key, item)| {
                out.push(key.to_owned());
                texts(item, out);
            }),
            _ => {}
        }
    }
    let ours = |value: &Value<'static>| {
        let of = |key| value.get(key).map(ToString::to_string).unwrap_or_default();
        of("settings") + &of("tools")
    };
    let ours = ours(fixture) + &ours(case);
    let mut found = Vec::new();
    for call in list(case, "calls") {
        let parts = ["arguments", "result", "error"].map(|key| call.get(key));
        parts.into_iter().flatten().for_each(|part| texts(part, &mut found));
    }
    let calls = list(case, "calls");
    let is_tool = |word: &str| {
        calls.iter().any(|call| text(call, "name").is_some_and(|name| name.contains(word)))
    };
    for word in found.iter().filter(|word| word.chars().count() > 3) {
        let begins = |at: usize| !words[..at].ends_with(char::is_alphanumeric);
        let leaves = words.match_indices(&**word).any(|(at, _)| begins(at));
        // Rules of ours are called so.
        let leaves = leaves && word != "error" && word != "isError";
        assert!(!leaves || ours.contains(&**word) || is_tool(word), "`{word}` in {words:?}");
    }
}

fn is_expected(case: &Value<'static>, answer: &Map<'static>) -> bool {
    if let Some(score) = number(case, "score") {
        let found = answer.get("score").and_then(Value::as_number).map(|score| score.as_f64());
        return found.is_some_and(|found| (found - score).abs() <= 1e-12);
    }
    ["not_evaluable", "failed", "refused"]
        .iter()
        .any(|key| case.get(key).is_some() && case.get(key) == answer.get(key))
}

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/evaluators");
    let entries = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut files: Vec<_> = entries(&root).iter().flat_map(|folder| entries(folder)).collect();
    files.sort();
    files
}

/// The first case of a kind's fixtures in which a judge is asked, with its fixture.
pub(crate) fn first_asked(kind: &str) -> (Value<'static>, Value<'static>) {
    for path in fixtures() {
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        if folder == Some(kind) {
            let content = std::fs::read_to_string(&path).expect("a fixture is a text");
            let fixture = yaml(&path.display().to_string(), content);
            let asks = |case: &&Value<'static>| case.get("shows").is_some();
            if let Some(case) = list(&fixture, "cases").iter().find(asks).cloned() {
                return (fixture, case);
            }
        }
    }
    panic!("no case of {kind} shows what is asked")
}

#[test]
fn fixtures_are_answered_as_their_sources_say() {
    let mut wrong = Vec::new();
    for path in fixtures() {
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let kind = kind(folder.unwrap_or_default()).expect("a folder is named after its kind");
        let content = std::fs::read_to_string(&path).expect("a fixture is a text");
        let fixture = yaml(&path.display().to_string(), content);
        assert!(text(&fixture, "source").is_some(), "{} names its source", path.display());
        assert!(!list(&fixture, "cases").is_empty(), "{} has cases", path.display());
        for case in list(&fixture, "cases") {
            let answer = answer(kind, &fixture, case);
            if !is_expected(case, &answer) {
                let file = path.file_name().unwrap_or_default().display();
                let name = text(case, "name").unwrap_or_default();
                wrong.push(format!("{}/{file}: {name}: {}", kind.name, Value::Map(answer)));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn example_of_each_kind_is_a_valid_config() {
    for kind in KINDS {
        let indented: String = kind.example.lines().map(|line| format!("  {line}\n")).collect();
        let text = match kind.example.starts_with("evaluators:") {
            true => kind.example.to_owned(),
            false => format!("evaluators:\n{indented}"),
        };
        let judge = "{api: openai, model: m}";
        let text = format!("judges: {{small: {judge}, large: {judge}}}\n{text}");
        let part = ConfigPart::Text { name: kind.name.to_owned(), text };
        let loaded = load(&[part], &|_| None).unwrap_or_else(|error| panic!("{error}"));
        let plan = ResolvedConfig::new(&loaded).unwrap_or_else(|error| panic!("{error}"));
        assert!(!plan.evaluators.is_empty(), "{}", kind.name);
        assert!(plan.evaluators.iter().all(|one| one.info.kind == kind.name), "{}", kind.name);
    }
}
