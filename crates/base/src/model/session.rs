//! Sessions: their keys, and a session as one trajectory of the calls of all its traces.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::{ClientGroup, Exchange, ToolCall, ToolDefinition, Trajectory, Usage, WorkBudget};

/// Key of a session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SessionKey {
    /// `service.name` of its traces' resource, empty if absent; `None` if ids alone distinguish
    /// sessions.
    pub service_name: Option<Box<str>>,
    /// The session id on its spans.
    pub session_id: Box<str>,
    /// Group of their senders.
    pub group: ClientGroup,
}

impl SessionKey {
    /// Returns a unique encoding, from which identities and samples of sessions are derived.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(service_name) = &self.service_name {
            bytes.extend((service_name.len() as u64).to_be_bytes());
            bytes.extend(service_name.as_bytes());
        }
        bytes.extend(self.session_id.as_bytes());
        bytes
    }
}

/// Joins the trajectories of one session, ordered by start, into one. Calls are in start order and
/// parallel only within a trace. It has the input of the first turn, the output of the last, and
/// the sums of usage and cost. It is attached to the root span of the last trace. `None` without a
/// trajectory.
pub fn join_session<'a>(trajectories: Vec<Trajectory<'a>>) -> Option<Trajectory<'a>> {
    let mut turns = trajectories.into_iter();
    let mut session = turns.next()?;
    let definitions = std::mem::take(&mut session.tool_definitions);
    let mut tools = SessionTools::default();
    let mut is_spent = session.effort.is_trace_spent();
    definitions.into_iter().for_each(|tool| tools.put(tool));
    session.turn_starts.push(session.start_ns);
    session.turn_roots.push((session.trace_id, session.span_id));
    for turn in turns {
        session.turn_starts.push(turn.start_ns);
        session.turn_roots.push((turn.trace_id, turn.span_id));
        is_spent |= turn.effort.is_trace_spent();
        join(&mut session, &mut tools, turn);
    }
    session.tool_definitions = tools.list;
    // Each trace was read within its own budget.
    session.effort = WorkBudget::new(session.effort.given());
    if is_spent {
        session.effort.exhaust();
    }
    put_in_order(&mut session.tool_calls);
    session.kept_spans.sort_by_key(|span| span.end_ns);
    Some(session)
}

/// Sorts groups of calls by start, and renumbers them in that order.
fn put_in_order(calls: &mut Vec<ToolCall<'_>>) {
    if !calls.is_sorted_by_key(|call| call.start_ns) {
        let mut started = Vec::with_capacity(calls.len());
        let mut group = (0, 0);
        for call in calls.drain(..) {
            if call.group == 0 || call.group != group.0 {
                group = (call.group, call.start_ns);
            }
            started.push((group.1, call));
        }
        started.sort_by_key(|(start, _)| *start);
        calls.extend(started.into_iter().map(|(_, call)| call));
    }
    let mut last = 0;
    let mut number = 0;
    for call in calls.iter_mut().filter(|call| call.group != 0) {
        number += u32::from(call.group != last);
        last = std::mem::replace(&mut call.group, number);
    }
}

/// Tool definitions of a session: a repeated name has its first place and its last content.
#[derive(Default)]
struct SessionTools<'a> {
    list: Vec<ToolDefinition<'a>>,
    places: HashMap<Cow<'a, str>, usize>,
}

impl<'a> SessionTools<'a> {
    fn put(&mut self, tool: ToolDefinition<'a>) {
        match self.places.get(&tool.name) {
            Some(place) => self.list[*place] = tool,
            None => {
                self.places.insert(tool.name.clone(), self.list.len());
                self.list.push(tool);
            }
        }
    }
}

fn join<'a>(session: &mut Trajectory<'a>, tools: &mut SessionTools<'a>, mut turn: Trajectory<'a>) {
    // Group numbers continue from turn to turn.
    let last = session.tool_calls.iter().map(|call| call.group).max().unwrap_or(0);
    let grouped = turn.tool_calls.iter_mut().filter(|call| call.group != 0);
    grouped.for_each(|call| call.group += last);
    session.tool_calls.append(&mut turn.tool_calls);
    session.kept_spans.append(&mut turn.kept_spans);
    session.spans.append(&mut turn.spans);
    session.remarks.append(&mut turn.remarks);
    session.heard.append(&mut turn.heard);
    turn.tool_definitions.into_iter().for_each(|tool| tools.put(tool));
    session.bytes = session.bytes.saturating_add(turn.bytes);
    session.usage = add(session.usage, turn.usage);
    session.cost = sum(session.cost, turn.cost, |a, b| (a + b).min(f64::MAX));
    session.agent_name = session.agent_name.take().or(turn.agent_name);
    turn.models.into_iter().for_each(|model| session.add_model(model));
    session.start_ns = session.start_ns.min(turn.start_ns);
    session.end_ns = session.end_ns.max(turn.end_ns);
    session.trace_id = turn.trace_id;
    session.span_id = turn.span_id;
    session.span_name = turn.span_name;
    session.attributes = turn.attributes;
    session.resource = turn.resource;
    let answer = std::mem::replace(&mut session.final_output, turn.final_output);
    session.exchanges.push(Exchange { answer, user_input: turn.user_input });
}

fn add(a: Usage, b: Usage) -> Usage {
    let plus = |a, b| sum(a, b, u64::saturating_add);
    Usage {
        model_calls: plus(a.model_calls, b.model_calls),
        input_tokens: plus(a.input_tokens, b.input_tokens),
        output_tokens: plus(a.output_tokens, b.output_tokens),
        cache_read_tokens: plus(a.cache_read_tokens, b.cache_read_tokens),
        cache_write_tokens: plus(a.cache_write_tokens, b.cache_write_tokens),
        reasoning_tokens: plus(a.reasoning_tokens, b.reasoning_tokens),
    }
}

/// Adds two numbers; if one is unknown, the other is the sum.
fn sum<T>(a: Option<T>, b: Option<T>, plus: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(plus(a, b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Content, SpanId, ToolCall};

    #[test]
    fn keys_that_run_together_differ_in_their_bytes() {
        let key = |service: &str, session: &str| {
            let service_name = Some(service.into());
            let session_id = session.into();
            SessionKey { service_name, session_id, group: ClientGroup::default() }.to_bytes()
        };
        assert_ne!(key("shop", "1"), key("sho", "p1"));
        assert_ne!(key("", "shop1"), key("shop", "1"));
    }
    use crate::value::Value;

    fn turn(n: u8, tokens: Option<u64>) -> Trajectory<'static> {
        let text = |text: String| Content::ready(Value::from(text));
        Trajectory {
            span_id: SpanId([n; 8]),
            start_ns: u64::from(n) * 10,
            end_ns: u64::from(n) * 10 + 5,
            tool_calls: vec![ToolCall { start_ns: u64::from(n) * 10, ..ToolCall::default() }],
            user_input: text(format!("ask {n}")),
            final_output: text(format!("answer {n}")),
            usage: Usage { input_tokens: tokens, ..Usage::default() },
            ..Trajectory::default()
        }
    }

    #[test]
    fn session_has_the_calls_of_all_turns_and_ends_with_the_last() {
        let joined = join_session(vec![turn(1, Some(3)), turn(2, None), turn(3, Some(4))]);
        let session = joined.expect("three turns");
        assert_eq!(session.tool_calls.len(), 3);
        assert_eq!(session.calls_by_turn().map(<[_]>::len).collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!((session.start_ns, session.end_ns), (10, 35));
        assert_eq!(session.span_id, SpanId([3; 8]));
        assert_eq!(session.usage.input_tokens, Some(7));
        assert_eq!(session.user_input.value(), Some(&Value::from("ask 1")));
        assert_eq!(session.final_output.value(), Some(&Value::from("answer 3")));
        assert!(join_session(Vec::new()).is_none());
    }
}
