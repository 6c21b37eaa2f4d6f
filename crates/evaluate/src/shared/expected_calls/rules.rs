//! Matchers in expected calls, compiled when the criteria are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CallMatcher, Criteria, ExpectedCall, RightWay};
use crate::shared::arguments::{ArgumentMatcher, ArgumentMode};
use crate::shared::matcher::{self, Expected};
use spanscore_base::model::Outcome;
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::Value;

impl Criteria {
    /// Compiles the matchers in the expected calls, if `reads_matchers`, and the rules for single
    /// arguments in the settings `argument_matcher` and `argument_matchers` of `node`.
    pub fn compiled(
        mut self,
        matcher: &CallMatcher,
        reads_matchers: bool,
        node: &Node,
    ) -> Result<Self, SettingsError> {
        check_rules(node)?;
        let criteria = node.get("criteria").filter(|_| reads_matchers);
        criteria.map_or(Ok(()), matcher::check)?;
        let of_alternatives = self.any_of.iter_mut().flat_map(|it| &mut it.tool_calls);
        let of_lists = self.turns.iter_mut().chain(&mut self.steps).flatten();
        for call in self.tool_calls.iter_mut().chain(of_lists).chain(of_alternatives) {
            let place = criteria.unwrap_or(node).place;
            compile(call, matcher.of(&call.name), reads_matchers)
                .map_err(|error| error.at(place))?;
        }
        Ok(self)
    }
}

/// Rejects mistakes in the rules for single arguments, each with its location.
fn check_rules(node: &Node) -> Result<(), SettingsError> {
    let by_tool = node.get("argument_matchers").into_iter().flat_map(Node::entries);
    let matchers = by_tool.map(|(_, matcher)| matcher).chain(node.get("argument_matcher"));
    for matcher in matchers {
        let Some(rules) = matcher.get("match") else { continue };
        if matcher.read::<ArgumentMatcher>()?.mode == ArgumentMode::Ignore {
            return Err(SettingsError::new("`match` does not go with `mode: ignore`")
                .with_help("use `mode: subset`, which compares only the listed arguments")
                .at(rules.place));
        }
        rules.entries().try_for_each(|(_, rule)| matcher::check_rule(rule))?;
    }
    Ok(())
}

fn compile(
    call: &mut ExpectedCall,
    matcher: &ArgumentMatcher,
    reads_matchers: bool,
) -> Result<(), SettingsError> {
    if call.is_name {
        return Ok(());
    }
    let written = call.arguments.clone();
    let read = if reads_matchers { matcher::expected(written)? } else { Expected::Plain(written) };
    let ruled = with_rules(read, &matcher.rules)?;
    match ruled.into_plain() {
        Ok(plain) => call.arguments = plain,
        Err(ruled) => call.rules = Some(Arc::new(ruled)),
    }
    if let Some(result) = call.result.as_mut().filter(|_| reads_matchers) {
        call.result_rules = matcher::ruled(result)?.map(Arc::new);
    }
    Ok(())
}

/// Replaces single arguments by rules.
fn with_rules(
    arguments: Expected,
    rules: &BTreeMap<String, Value<'static>>,
) -> Result<Expected, SettingsError> {
    if rules.is_empty() {
        return Ok(arguments);
    }
    let mut entries = match arguments {
        Expected::Map(entries) => entries,
        Expected::Plain(Value::Map(map)) => {
            let entries = map.into_entries().into_iter();
            entries.map(|(key, it)| (key.into_owned(), Expected::Plain(it))).collect()
        }
        Expected::Plain(_) => Vec::new(),
        whole => return Ok(whole),
    };
    for (name, rule) in rules {
        let rule = matcher::rule_of(rule)?;
        match entries.iter_mut().find(|(key, _)| key == name) {
            Some((_, expected)) => *expected = rule,
            None => entries.push((name.clone(), rule)),
        }
    }
    Ok(Expected::Map(entries))
}

/// Judges by several alternatives, of which the best score counts. A score of 1 is final; below it,
/// an alternative that cannot be judged might be the right one.
pub fn best_of(
    alternatives: &[RightWay],
    mut judge: impl FnMut(&[ExpectedCall]) -> Outcome,
) -> Outcome {
    let value = |outcome: &Outcome| match outcome {
        Outcome::Scored(score) if score.value >= 1.0 => 2.0,
        Outcome::Scored(score) => score.value,
        _ => 1.0,
    };
    let better = |best, next| if value(&next) > value(&best) { next } else { best };
    let outcomes = alternatives.iter().map(|way| judge(&way.tool_calls));
    outcomes.reduce(better).unwrap_or_else(|| judge(&[]))
}
