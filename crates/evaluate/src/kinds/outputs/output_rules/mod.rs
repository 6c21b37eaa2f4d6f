//! `output_rules`: rules for the agent's output and its tools' results, without a model.
//!
//! The score is the weighted mean of a bundle's rules over the texts of `target`; the details have
//! each rule's result and all findings. A failed critical rule fails the evaluation at any mean.
//! Detectors are data (`spanscore_detect`); [`builtin`] has the built-in rules, [`iris`] the
//! source's own behaviour (`compat: iris`), [`limits`] the limits. Everything is linear in the
//! text.

mod answer;
mod build;
mod builtin;
mod common;
mod custom;
mod iris;
mod keywords;
mod limits;
mod merged;
mod reading;
mod relevance;
mod rule;
mod score;
mod settings;
mod texts;

mod words;

use std::sync::Arc;

pub use settings::{
    Bundle, Compat, CustomKind, CustomRuleConfig, OutputCriteria, OutputRulesConfig, TextProfile,
    TextTarget, Thresholds,
};
pub use spanscore_detect::Severity;
pub use spanscore_detect::pack::config::{DetectorConfig, PackConfig, Syntax};

use crate::evaluator::{CallJudge, CodeEvaluator, Evaluator, Kind};
use reading::Reading;
use rule::OutputRule;
use spanscore_base::model::Want;
use spanscore_base::model::{Facts, Outcome, Trajectory};
use spanscore_detect::pack::Pack;

/// Registry entry of `output_rules`.
pub static KIND: Kind = Kind {
    name: "output_rules",
    about: "Checks the final output, tool arguments, tool results or user input by rules, without \
            a model: personal data, injection, stubs, completeness, relevance and cost.",
    also_known_as: &[("evaluate_output", "Iris"), ("regex", "Promptfoo")],
    threshold: 0.7,
    schema: || schemars::schema_for!(OutputRulesConfig),
    build: |node| build::build(node).map(Evaluator::code),
    example: "\
output_rules/safety:
  bundle: safety
  target: tool_results
",
    ..Kind::PLAIN
};

/// Configured evaluator.
struct OutputRules {
    target: TextTarget,
    tools: Vec<String>,
    /// Attribute key of `target: attribute`.
    attribute: Option<String>,
    bundle: Bundle,
    iris: bool,
    expected: Option<Reading<'static>>,
    rules: Vec<OutputRule>,
    packs: Vec<Arc<Pack>>,
    skip_kinds: Vec<String>,
    /// Limit on listed findings of each kind and text.
    findings_max: usize,
    /// Rules whose built-in detectors the config replaces.
    replaced: Vec<&'static str>,
    /// True if any rule reads the user's input.
    reads_input: bool,
    /// True if any rule reads cost or tokens.
    reads_usage: bool,
    text_bytes_max: usize,
}

impl CodeEvaluator for OutputRules {
    fn reads_calls(&self) -> bool {
        matches!(self.target, TextTarget::ToolArguments | TextTarget::ToolResults)
    }

    /// Returns true: a failure found in some of the texts is final.
    fn stands_unfinished(&self) -> bool {
        true
    }

    fn facts(&self) -> Facts {
        Facts {
            arguments: self.target == TextTarget::ToolArguments,
            results: self.target == TextTarget::ToolResults,
            user_input: self.target == TextTarget::UserInput || self.reads_input,
            final_output: self.target == TextTarget::FinalOutput,
            usage: self.reads_usage,
            root_attributes: self.target == TextTarget::Attribute,
            attributes: self.attribute.iter().map(|key| vec![key.clone()]).collect(),
            ..Facts::default()
        }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        score::judge(self, trajectory, want)
    }

    fn call_judge<'t>(
        &'t self,
        trajectory: &'t Trajectory<'_>,
        want: Want,
    ) -> Option<CallJudge<'t>> {
        let input = self.input(trajectory);
        Some(Box::new(move |call| {
            let calls = std::slice::from_ref(call);
            score::judge_calls(self, (trajectory, calls), input.as_ref(), want)
        }))
    }
}

#[cfg(test)]
mod tests;
