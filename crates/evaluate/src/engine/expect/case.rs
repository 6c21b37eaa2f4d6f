//! Criteria derived from a recorded test case, for each kind with criteria.

use crate::evaluator::Kind;
use spanscore_base::tally::tally;
use spanscore_base::value::{Map, Value};

/// Recorded test case: its expected tool calls in order, their results, and the answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// Name and arguments of each call.
    pub calls: Vec<(String, Value<'static>)>,
    /// Number of calls up to the end of each turn.
    pub turn_ends: Vec<usize>,
    /// Name and result of each call with a known result.
    pub results: Vec<(String, Value<'static>)>,
    /// Final answer of the agent.
    pub answer: Option<String>,
}

impl Case {
    /// Returns a case with a value for every kind of criteria.
    fn sample() -> Self {
        let call = || ("tool".to_owned(), Value::Map(Map::new()));
        let answer = Some("answer".to_owned());
        Self { calls: vec![call()], turn_ends: vec![1], results: vec![call()], answer }
    }

    /// Returns sample criteria to build an evaluator of a kind; `None` if the kind has none.
    pub fn sample_criteria(kind: &Kind) -> Option<Value<'static>> {
        let one = |key: &'static str| Some((key, Value::List(vec![Value::from("it")])));
        let own = || match kind.name {
            "task_completion" => Some(one("tasks")),
            "topic_adherence" => Some(one("topics")),
            "pairwise" => Some(Some(("baseline", Value::from("it")))),
            "classification" => Some(Some(("expected_class", Value::from("")))),
            "goal_accuracy" | "refusal" | "retrieval" | "output_rules" => Some(None),
            "agentevals" | "grpc" | "http" => Some(None),
            _ => None,
        };
        let of_own = || own().map(|entry| Value::Map(entry.into_iter().collect()));
        Self::sample().criteria(kind).or_else(of_own)
    }

    /// Returns the criteria of a kind; `None` if the case has nothing to compare for it.
    pub fn criteria(&self, kind: &Kind) -> Option<Value<'static>> {
        let (key, expected) = match kind.name {
            "tool_call_args" => ("tool_calls", entries(&self.calls, "args")),
            _ if takes_turns(kind) && self.turn_ends.len() > 1 => ("turns", self.turns()),
            "tool_trajectory" | "tool_correctness" => {
                ("tool_calls", entries(&self.calls, "arguments"))
            }
            "tool_call_order" if !self.calls.is_empty() => ("tool_calls_order", self.order()),
            "tool_call_count" => ("tool_calls_count", self.counts()),
            "tool_call_output" if !self.results.is_empty() => {
                ("tool_outputs", entries(&self.results, "output"))
            }
            "exact_match" | "json_similarity" | "word_overlap" | "rubric" => {
                ("expected_output", Value::from(self.answer.clone()?))
            }
            "contains" => ("search_text", Value::from(self.answer.clone()?)),
            _ => return None,
        };
        Some(Value::Map(Map::from([(key, expected)])))
    }

    fn turns(&self) -> Value<'static> {
        let starts = [0].into_iter().chain(self.turn_ends.iter().copied());
        let turns = starts.zip(&self.turn_ends).map(|(start, end)| &self.calls[start..*end]);
        Value::List(turns.map(|calls| entries(calls, "arguments")).collect())
    }

    fn order(&self) -> Value<'static> {
        Value::List(self.calls.iter().map(|(name, _)| Value::from(name.clone())).collect())
    }

    fn counts(&self) -> Value<'static> {
        let counts = tally(self.calls.iter().map(|(name, _)| &**name));
        let count_of = |name: &String| counts.get(&**name).copied().unwrap_or_default();
        let count = |(name, _): &(String, Value<'static>)| {
            (name.clone(), Value::List(vec![Value::from("="), Value::from(count_of(name))]))
        };
        Value::Map(self.calls.iter().map(count).collect())
    }
}

/// Returns true if a kind's criteria can apply to each turn of a conversation.
pub fn takes_turns(kind: &Kind) -> bool {
    matches!(kind.name, "tool_trajectory" | "tool_correctness")
}

fn entries(named: &[(String, Value<'static>)], key: &'static str) -> Value<'static> {
    let entry = |(name, content): &(String, Value<'static>)| {
        Value::Map(Map::from([("name", Value::from(name.clone())), (key, content.clone())]))
    };
    Value::List(named.iter().map(entry).collect())
}
