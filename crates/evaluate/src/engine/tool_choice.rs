//! Filter of the tool calls visible to an evaluator: by `only_tools`, `exclude_tools`,
//! `only_agents` and `only_chosen`, with tools renamed by `tool_aliases`. Calls that deliver an
//! agent's answer are hidden, unless settings or criteria name their tool.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::shared::glob::matches_glob;
use spanscore_base::model::{ToolCall, Trajectory};
use spanscore_base::value::Value;

/// Filter of tool calls, and aliases of tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolChoice {
    /// Globs of visible tools; empty for all.
    pub only: Vec<String>,
    /// Globs of hidden tools.
    pub exclude: Vec<String>,
    /// Globs of agents with visible calls; empty for all.
    pub agents: Vec<String>,
    /// True if only calls requested by a model are visible.
    pub chosen: bool,
    /// Names of tools, with globs of their aliases.
    pub aliases: BTreeMap<String, Vec<String>>,
    /// Texts in settings and criteria; output tools among them are visible.
    pub named: Vec<String>,
}

impl ToolChoice {
    /// Returns true for a visible call; `named` are further texts that may name an output tool.
    fn includes(&self, call: &ToolCall<'_>, named: &[String]) -> bool {
        let fits = |globs: &[String]| globs.iter().any(|glob| matches_glob(glob, &call.name));
        let names = |texts: &[String]| texts.iter().any(|text| *text == call.name);
        let is_agent = |agent: &str| self.agents.iter().any(|glob| matches_glob(glob, agent));
        (self.only.is_empty() || fits(&self.only))
            && (self.agents.is_empty() || call.agent.as_deref().is_some_and(is_agent))
            && !fits(&self.exclude)
            && (!call.is_output || names(&self.named) || names(named) || names(&self.only))
    }

    /// Runs `run` with only the visible calls, renamed by alias; restores all calls and names
    /// afterwards.
    pub(super) fn narrow<'a, T>(
        &self,
        trajectory: &mut Trajectory<'a>,
        named: &[String],
        run: impl FnOnce(&mut Trajectory<'a>) -> T,
    ) -> T {
        if self.aliases.is_empty() {
            return self.filter(trajectory, named, run);
        }
        let before: Vec<Cow<'a, str>> = names(trajectory).map(|name| name.clone()).collect();
        for name in names(trajectory) {
            if let Some(alias) = self.alias_of(name) {
                *name = Cow::Owned(alias.to_owned());
            }
        }
        let outcome = self.filter(trajectory, named, run);
        for (name, before) in names(trajectory).zip(before) {
            *name = before;
        }
        outcome
    }

    /// Returns the tool with that alias.
    fn alias_of(&self, name: &str) -> Option<&str> {
        if self.aliases.contains_key(name) {
            return None;
        }
        let fits = |(_, globs): &(&String, &Vec<String>)| {
            globs.iter().any(|glob| matches_glob(glob, name))
        };
        self.aliases.iter().find(fits).map(|(tool, _)| &**tool)
    }

    fn filter<'a, T>(
        &self,
        trajectory: &mut Trajectory<'a>,
        named: &[String],
        run: impl FnOnce(&mut Trajectory<'a>) -> T,
    ) -> T {
        // Without messages the requester of a call is unknown.
        let calls = &trajectory.tool_calls;
        let tells_chosen = self.chosen && calls.iter().any(|call| call.message_place.is_some());
        let includes = |call: &ToolCall<'_>| {
            (!tells_chosen || call.message_place.is_some()) && self.includes(call, named)
        };
        if calls.iter().all(includes) {
            return run(trajectory);
        }
        let all = std::mem::take(&mut trajectory.tool_calls);
        let includes: Vec<bool> = all.iter().map(includes).collect();
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

/// Returns the names of all calls and of all declared tools.
fn names<'t, 'a>(trajectory: &'t mut Trajectory<'a>) -> impl Iterator<Item = &'t mut Cow<'a, str>> {
    let calls = trajectory.tool_calls.iter_mut().map(|call| &mut call.name);
    calls.chain(trajectory.tool_definitions.iter_mut().map(|tool| &mut tool.name))
}

/// Collects all texts in a value, including keys: settings may name tools there.
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
    fn tools_are_seen_under_their_names_by_alias_and_by_agent() {
        let call = |name: &'static str, agent: Option<&'static str>| ToolCall {
            name: name.into(),
            agent: agent.map(Into::into),
            ..ToolCall::default()
        };
        let check = |choice: ToolChoice, expected: &[&str]| {
            let tool_calls = vec![
                call("mcp__shop__find", Some("root")),
                call("find", None),
                call("pay", Some("helper")),
            ];
            let mut trajectory = Trajectory { tool_calls, ..Trajectory::default() };
            let names = |trajectory: &mut Trajectory<'_>| {
                let names = trajectory.tool_calls.iter().map(|call| call.name.to_string());
                names.collect::<Vec<_>>()
            };
            assert_eq!(choice.narrow(&mut trajectory, &[], names), expected);
            assert_eq!(names(&mut trajectory), ["mcp__shop__find", "find", "pay"]);
        };
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let aliases = || BTreeMap::from([("find".to_owned(), vec!["mcp__*__find".to_owned()])]);
        check(ToolChoice { aliases: aliases(), ..ToolChoice::default() }, &["find", "find", "pay"]);
        let only = ToolChoice { aliases: aliases(), only: texts(&["find"]), ..Default::default() };
        check(only, &["find", "find"]);
        let agents = ToolChoice { agents: texts(&["ro*"]), ..ToolChoice::default() };
        check(agents, &["mcp__shop__find"]);
    }

    #[test]
    fn calls_that_a_tool_made_are_left_out_where_messages_tell_them() {
        let check = |places: [Option<u32>; 3], expected: usize| {
            let call = |message_place| ToolCall { message_place, ..ToolCall::default() };
            let tool_calls = places.map(call).into();
            let mut trajectory = Trajectory { tool_calls, ..Trajectory::default() };
            let choice = ToolChoice { chosen: true, ..ToolChoice::default() };
            let seen = choice.narrow(&mut trajectory, &[], |seen| seen.tool_calls.len());
            assert_eq!((seen, trajectory.tool_calls.len()), (expected, 3));
        };
        check([Some(0), None, Some(1)], 2);
        check([None; 3], 3);
    }

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
