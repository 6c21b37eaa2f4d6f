//! Filter of the tool calls that an evaluator sees: by `only_tools` and `exclude_tools`, and
//! without the calls by which an agent gave its answer, unless settings or criteria name their
//! tool.

use crate::shared::glob::matches_glob;
use spanscore_base::model::{ToolCall, Trajectory};
use spanscore_base::value::Value;

/// Filter of tool calls by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolChoice {
    /// Globs of the only tools to see; all where empty.
    pub only: Vec<String>,
    /// Globs of tools to leave out.
    pub exclude: Vec<String>,
    /// Texts in settings and criteria: an output tool among them is seen.
    pub named: Vec<String>,
}

impl ToolChoice {
    /// Returns true if a call is seen; `named` are further texts that may name an output tool.
    fn includes(&self, call: &ToolCall<'_>, named: &[String]) -> bool {
        let fits = |globs: &[String]| globs.iter().any(|glob| matches_glob(glob, &call.name));
        let names = |texts: &[String]| texts.iter().any(|text| *text == call.name);
        (self.only.is_empty() || fits(&self.only))
            && !fits(&self.exclude)
            && (!call.is_output || names(&self.named) || names(named) || names(&self.only))
    }

    /// Runs `run` while the trajectory holds only the calls that are seen; restores the others
    /// after.
    pub(super) fn narrow<T>(
        &self,
        trajectory: &mut Trajectory<'_>,
        named: &[String],
        run: impl FnOnce(&mut Trajectory<'_>) -> T,
    ) -> T {
        if trajectory.tool_calls.iter().all(|call| self.includes(call, named)) {
            return run(trajectory);
        }
        let all = std::mem::take(&mut trajectory.tool_calls);
        let includes: Vec<bool> = all.iter().map(|call| self.includes(call, named)).collect();
        let mut left_out = Vec::new();
        for (call, includes) in all.into_iter().zip(&includes) {
            let list = if *includes { &mut trajectory.tool_calls } else { &mut left_out };
            list.push(call);
        }
        let outcome = run(trajectory);
        let mut seen = std::mem::take(&mut trajectory.tool_calls).into_iter();
        let mut left_out = left_out.into_iter();
        let next = |includes: &bool| if *includes { seen.next() } else { left_out.next() };
        trajectory.tool_calls = includes.iter().filter_map(next).collect();
        outcome
    }
}

/// Collects all texts in a value, keys among them: the tools that settings may name.
pub fn texts_of(value: &Value<'_>) -> Vec<String> {
    fn gather(value: &Value<'_>, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.to_string()),
            Value::List(items) => items.iter().for_each(|item| gather(item, found)),
            Value::Map(map) => map.iter().for_each(|(key, value)| {
                found.push(key.to_string());
                gather(value, found);
            }),
            _ => {}
        }
    }
    let mut found = Vec::new();
    gather(value, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_tools_are_seen_where_they_are_named() {
        let call = |name: &'static str, is_output| ToolCall {
            name: name.into(),
            is_output,
            ..ToolCall::default()
        };
        let seen = |choice: ToolChoice| {
            let tool_calls = vec![call("a", false), call("final_answer", true), call("b", false)];
            let mut trajectory = Trajectory { tool_calls, ..Trajectory::default() };
            let names = |trajectory: &mut Trajectory<'_>| {
                let names = trajectory.tool_calls.iter().map(|call| call.name.to_string());
                names.collect::<Vec<_>>()
            };
            let seen = choice.narrow(&mut trajectory, &[], names);
            assert_eq!(names(&mut trajectory), ["a", "final_answer", "b"]);
            seen
        };
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(seen(ToolChoice::default()), ["a", "b"]);
        let named = ToolChoice { named: texts(&["final_answer"]), ..ToolChoice::default() };
        assert_eq!(seen(named), ["a", "final_answer", "b"]);
        let exclude = ToolChoice { exclude: texts(&["b*"]), ..ToolChoice::default() };
        assert_eq!(seen(exclude), ["a"]);
        let only = ToolChoice { only: texts(&["b"]), ..ToolChoice::default() };
        assert_eq!(seen(only), ["b"]);
    }
}
