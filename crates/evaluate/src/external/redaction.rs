//! Redaction and truncation of a task before it is sent. Secrets are redacted first, since half a
//! secret is still one.
//!
//! Ids of traces, spans and calls stay, since answers refer to them. Criteria and settings stay
//! unchanged.

use prost_types::value::Kind;

use super::content;
use super::proto::{ContentMessage, EvaluateRequest, TaskMessage, TrajectoryMessage};
use spanscore_base::settings::SettingsError;
use spanscore_base::value::json;
use spanscore_detect::redactor::{Redact, RedactionGaps, Redactor, UnderKey};

/// Redacts and truncates the tasks of a request. Equal values have equal placeholders throughout a
/// task. Returns the failures of redaction.
///
/// # Errors
/// Returns an error if the detectors cannot be built, which a test rules out.
pub fn ready(request: &mut EvaluateRequest, redact: Redact) -> Result<RedactionGaps, String> {
    let mut gaps = RedactionGaps::default();
    for task in &mut request.tasks {
        if redact != Redact::None {
            gaps.add(redact_task(task, redact)?);
        }
        for trajectory in &mut task.trajectories {
            each_content(trajectory, &mut content::cut);
        }
    }
    Ok(gaps)
}

/// Returns the error for missing detectors.
pub(super) fn unbuilt(error: SettingsError) -> String {
    format!("failed to build the detectors: {error}")
}

fn redact_task(task: &mut TaskMessage, redact: Redact) -> Result<RedactionGaps, String> {
    let mut redactor = Redactor::new(redact).map_err(unbuilt)?;
    for trajectory in &mut task.trajectories {
        each_content(trajectory, &mut |content| look_at(&mut redactor, content));
        each_text(trajectory, &mut |key, text| redactor.look_at_entry(key, text));
    }
    if redactor.is_needed() {
        for trajectory in &mut task.trajectories {
            each_content(trajectory, &mut |content| replace(&mut redactor, content));
            each_text(trajectory, &mut |key, text| redactor.replace_entry(key, text));
        }
    }
    Ok(redactor.gaps())
}

fn look_at(redactor: &mut Redactor, content: &ContentMessage) {
    match json::parse(&content.value) {
        Ok(value) if content.json => redactor.look_at(&value, UnderKey::NONE),
        _ => redactor.look_at_entry(UnderKey::NONE, &content.value),
    }
}

fn replace(redactor: &mut Redactor, content: &mut ContentMessage) {
    match json::parse(&content.value) {
        Ok(value) if content.json => {
            let mut value = value.into_owned();
            redactor.replace(&mut value, UnderKey::NONE);
            content.value = value.to_string();
        }
        _ => redactor.replace_entry(UnderKey::NONE, &mut content.value),
    }
}

/// Visits the contents of a trajectory.
fn each_content(trajectory: &mut TrajectoryMessage, visit: &mut impl FnMut(&mut ContentMessage)) {
    let TrajectoryMessage { user_input, final_output, tool_calls, messages, .. } = trajectory;
    let own = user_input.iter_mut().chain(final_output);
    let said = messages.iter_mut().filter_map(|message| message.content.as_mut());
    own.chain(said).for_each(&mut *visit);
    for call in tool_calls {
        let parts = call.arguments.iter_mut().chain(&mut call.result).chain(&mut call.error);
        parts.for_each(&mut *visit);
    }
}

/// Visits its other texts, each with its key, if any.
fn each_text(trajectory: &mut TrajectoryMessage, visit: &mut impl FnMut(UnderKey, &mut String)) {
    visit(UnderKey::NONE, &mut trajectory.session_id);
    visit(UnderKey::NONE, &mut trajectory.agent_name);
    for call in &mut trajectory.tool_calls {
        visit(UnderKey::NONE, &mut call.name);
        visit(UnderKey::NONE, &mut call.agent_name);
    }
    for tool in &mut trajectory.tool_definitions {
        visit(UnderKey::NONE, &mut tool.description);
        visit(UnderKey::NONE, &mut tool.input_schema_json);
    }
    for (key, value) in trajectory.attributes.iter_mut().flat_map(|it| &mut it.fields) {
        each_attribute(UnderKey::of(key), value, visit);
    }
}

fn each_attribute(
    key: UnderKey,
    value: &mut prost_types::Value,
    visit: &mut impl FnMut(UnderKey, &mut String),
) {
    match &mut value.kind {
        Some(Kind::StringValue(text)) => visit(key, text),
        Some(Kind::ListValue(list)) => {
            list.values.iter_mut().for_each(|item| each_attribute(key, item, visit));
        }
        Some(Kind::StructValue(map)) => {
            let fields = map.fields.iter_mut();
            fields.for_each(|(key, item)| each_attribute(UnderKey::of(key), item, visit));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external::proto::{CallMessage, ContentState};

    fn content(value: &str, json: bool) -> Option<ContentMessage> {
        Some(ContentMessage { json, ..content::text_message(value) })
    }

    fn leaves(trajectory: TrajectoryMessage, redact: Redact) -> TrajectoryMessage {
        let task = TaskMessage { trajectories: vec![trajectory], ..TaskMessage::default() };
        let mut request = EvaluateRequest { tasks: vec![task], ..EvaluateRequest::default() };
        ready(&mut request, redact).expect("detectors");
        request.tasks.remove(0).trajectories.remove(0)
    }

    fn login() -> TrajectoryMessage {
        let arguments = r#"{"user":"jo@lampenhaus.de","password":"hunter22"}"#;
        let text = prost_types::Value { kind: Some(Kind::StringValue(arguments.to_owned())) };
        let call = CallMessage {
            id: "call-1".to_owned(),
            arguments: content(arguments, true),
            result: content("hunter22 is right", false),
            ..CallMessage::default()
        };
        TrajectoryMessage {
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            user_input: content("I am jo@lampenhaus.de", false),
            tool_calls: vec![call],
            attributes: Some(prost_types::Struct {
                fields: [("input.value".to_owned(), text)].into_iter().collect(),
            }),
            ..TrajectoryMessage::default()
        }
    }

    fn check(redact: Redact, arguments: &str, result: &str, asked: &str) {
        let left = leaves(login(), redact);
        let value = |content: &Option<ContentMessage>| content.clone().expect("it is there").value;
        let call = &left.tool_calls[0];
        assert_eq!(value(&call.arguments), arguments);
        assert_eq!(
            (value(&call.result).as_str(), value(&left.user_input).as_str()),
            (result, asked)
        );
        let attributes = left.attributes.expect("they are there");
        assert_eq!(
            attributes.fields["input.value"].kind,
            Some(Kind::StringValue(arguments.into()))
        );
        assert_eq!((call.id.as_str(), left.trace_id.len()), ("call-1", 32), "ids stay");
    }

    #[test]
    fn what_is_secret_is_replaced_everywhere_by_the_same_placeholder() {
        let whole = r#"{"user":"jo@lampenhaus.de","password":"hunter22"}"#;
        let secrets = r#"{"user":"jo@lampenhaus.de","password":"[SECRET_1]"}"#;
        let asked = "I am jo@lampenhaus.de";
        check(Redact::None, whole, "hunter22 is right", asked);
        check(Redact::Secrets, secrets, "[SECRET_1] is right", asked);
        let all = r#"{"user":"[EMAIL_1]","password":"[SECRET_1]"}"#;
        check(Redact::SecretsAndPii, all, "[SECRET_1] is right", "I am [EMAIL_1]");
    }

    #[test]
    fn a_secret_that_comes_with_each_call_leaves_room_for_others() {
        let call = |password: &str| CallMessage {
            arguments: content(&format!(r#"{{"password":"{password}"}}"#), true),
            ..CallMessage::default()
        };
        let mut tool_calls: Vec<_> = (0..200).map(|_| call("same-every-time")).collect();
        tool_calls.push(call("only-once"));
        let user_input = content("say only-once and same-every-time", false);
        let trajectory =
            TrajectoryMessage { user_input, tool_calls, ..TrajectoryMessage::default() };
        let left = leaves(trajectory, Redact::Secrets).user_input.expect("it is there");
        assert_eq!(left.value, "say [SECRET_2] and [SECRET_1]");
    }

    #[test]
    fn a_secret_at_the_place_of_a_cut_is_replaced_before() {
        let key = format!("ghp_{}", "aB3dE6gH9j".repeat(4));
        let text = format!("{} {key} {}", "x".repeat((256 << 10) - 30), "y".repeat(1_000));
        let trajectory =
            TrajectoryMessage { user_input: content(&text, false), ..TrajectoryMessage::default() };
        let left = leaves(trajectory, Redact::Secrets).user_input.expect("it is there");
        assert!(left.value.contains("[GITHUB_TOKEN_1]") && !left.value.contains("ghp_"));
        let told = (left.state, left.bytes_full);
        assert_eq!(told, (ContentState::Truncated as i32, text.len() as u64));
    }
}
