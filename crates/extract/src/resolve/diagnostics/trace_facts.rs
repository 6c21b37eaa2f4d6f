//! Explanation of trace-level facts: session, agent, user input, final output.

use std::fmt;

use super::{Diagnostics, describe};
use crate::resolve::facts::{TextCandidate, TextVerdict, told};
use crate::resolve::gather::{FALLBACK, Gathered};
use crate::resolve::plan::ReadingPlan;
use crate::resolve::tree::Tree;
use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{SpanId, ToolCall, Trajectory};
use spanscore_base::visible;

/// Limit on the named rejected candidates.
const PASSED_SHOWN_MAX: usize = 8;
/// Limit on the names of one group.
const NAMES_SHOWN_MAX: usize = 20;

/// Source of one fact of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactExplanation {
    /// Fact: `session_id`, `agent_name`, `user_input` or `final_output`.
    pub fact: &'static str,
    /// Description of its source; `None` without one.
    pub given_by: Option<String>,
    /// Descriptions of rejected candidates, with the reasons.
    pub passed: Vec<String>,
}

impl Diagnostics {
    /// Adds the sources of session, agent, user input and final output.
    pub(in crate::resolve) fn add_facts(
        &mut self,
        plan: &ReadingPlan,
        tree: &Tree<'_>,
        gathered: &Gathered<'_>,
    ) {
        let session = gathered.session.as_ref().and_then(|(source, _)| words(plan, *source, None));
        let agent = gathered.first_agent_source().and_then(|(span, rank)| {
            words(plan, rank & !FALLBACK, tree.get(span).map(|span| span.record.span_id))
        });
        for (fact, given_by) in [("session_id", session), ("agent_name", agent)] {
            self.facts.push(FactExplanation { fact, given_by, passed: Vec::new() });
        }
        let [inputs, outputs] = told(plan, tree, gathered);
        self.facts.push(of_texts("user_input", plan, tree, &inputs));
        self.facts.push(of_texts("final_output", plan, tree, &outputs));
    }

    /// Adds the groups of parallel calls, and the calls that gave the answer.
    pub(in crate::resolve) fn add_groups(
        &mut self,
        trajectory: &Trajectory<'_>,
        answered_by: Option<usize>,
    ) {
        for group in groups(&trajectory.tool_calls).filter(|group| group.len() > 1) {
            self.calls.push(of_group(group));
        }
        for call in trajectory.tool_calls.iter().filter(|call| call.is_output) {
            self.calls.push(format!(
                "output tool {} on span {}: a framework's way to return the answer, which no \
                 evaluator sees unless it names it",
                call.name, call.span_id
            ));
        }
        let answered_by = answered_by.and_then(|at| trajectory.tool_calls.get(at));
        let fact = self.facts.iter_mut().find(|fact| fact.fact == "final_output");
        if let (Some(call), Some(fact)) = (answered_by, fact) {
            let before = fact.given_by.replace(format!("arguments of output tool `{}`", call.name));
            let only_text = before.map(|given| format!("{given}: only the text of that answer"));
            fact.passed.extend(only_text);
        }
    }
}

fn of_group(group: &[ToolCall<'_>]) -> String {
    let names: Vec<&str> = group.iter().take(NAMES_SHOWN_MAX).map(|call| &*call.name).collect();
    let number = group.first().map_or(0, |call| call.group);
    let more = if group.len() > names.len() { ", ..." } else { "" };
    let instant = group.array_windows().all(|[one, next]| one.start_ns == next.start_ns);
    let why = if group.iter().all(|call| call.message_place.is_some()) {
        "messages of a model list them together"
    } else if instant {
        "they began in one instant"
    } else {
        "made between two calls of the model, or overlapping in time"
    };
    format!("group {number}: {}{more}: {why}", names.join(", "))
}

/// Describes a source with its dialect and span.
fn words(plan: &ReadingPlan, source: u16, span: Option<SpanId>) -> Option<String> {
    let source = plan.sources.get(usize::from(source))?;
    let dialect = plan.dialects.get(usize::from(source.dialect));
    let dialect = dialect.map_or_else(String::new, |it| format!(" ({})", it.name));
    let span = span.map_or_else(String::new, |span| format!(" on span {span}"));
    Some(format!("{}{dialect}{span}", describe(source)))
}

fn of_texts(
    fact: &'static str,
    plan: &ReadingPlan,
    tree: &Tree<'_>,
    told: &[TextCandidate],
) -> FactExplanation {
    let said = |text: &TextCandidate| {
        let span = tree.get(text.span).map(|span| span.record.span_id);
        words(plan, text.source, span)
    };
    let mut explanation = FactExplanation { fact, ..FactExplanation::default() };
    for text in told {
        let why = match text.verdict {
            TextVerdict::Taken => {
                explanation.given_by = said(text);
                continue;
            }
            // Candidates after the chosen one were never read.
            TextVerdict::NotAsked => continue,
            TextVerdict::Nothing => "says nothing",
            TextVerdict::Weak if fact == "user_input" => "empty, or more than what the user asked",
            TextVerdict::Weak => "empty",
            TextVerdict::Redacted => "a placeholder",
            TextVerdict::Unreadable => "cut off, or not of its form",
        };
        if explanation.passed.len() < PASSED_SHOWN_MAX {
            explanation.passed.extend(said(text).map(|said| format!("{said}: {why}")));
        }
    }
    explanation
}

/// Formats a line for the fact, and one for each rejected candidate.
impl fmt::Display for FactExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.given_by.as_deref().unwrap_or("not recorded");
        writeln!(f, "  {}: {}", self.fact, visible::line(given))?;
        for passed in &self.passed {
            writeln!(f, "    not {}", visible::line(passed))?;
        }
        Ok(())
    }
}
