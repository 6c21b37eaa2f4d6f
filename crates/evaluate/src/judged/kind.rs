//! Trait of judged kinds, and the evaluator built from one: needed facts, question, settings.

use std::sync::Arc;

use parking_lot::Mutex;

use super::asked::AskedQuestion;
use super::conclude::no_score;
use super::operator;
use super::question::{Question, Scoring};
use super::record::{EVIDENCE_BYTES_MAX, RecordWishes, RunRecord};
use super::settings::{self, JudgedSettings, NoSettings, Send};
use crate::evaluator::{Evaluator, JudgedEvaluator};
use crate::inquiry::{Conclusion, Inquired, JudgePlan};
use spanscore_base::model::{Facts, Outcome, Reason, Trajectory, Want};
use spanscore_base::settings::{Node, SettingsError};

/// Kind that asks a judge, with its needed facts and statements.
pub(crate) trait JudgedKind: Sync + std::marker::Send + 'static {
    /// Returns the facts that must be recorded, and allowed to be sent.
    fn needs(&self) -> &'static [NeededFact];

    /// Returns the facts needed in addition to those of every record.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// Builds the question about a trajectory.
    ///
    /// # Errors
    /// Returns the outcome known without asking: usually a reason why no score is possible.
    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome>;
}

/// Required fact of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeededFact {
    /// Input of the user.
    UserInput,
    /// Final output of the agent.
    FinalOutput,
    /// At least one tool call.
    Calls,
    /// Arguments of at least one call.
    Arguments,
    /// Definitions of the tools.
    Tools,
    /// Any of input, calls and final output.
    Anything,
}

impl NeededFact {
    /// Returns the reason if the fact is missing or must not be sent.
    fn missing(self, run: &JudgedRun<'_, '_>) -> Option<Reason> {
        let trajectory = run.trajectory;
        let send = &run.settings.send;
        let calls = &trajectory.tool_calls;
        let (is_there, reason, sent) = match self {
            Self::UserInput => {
                (!trajectory.user_input.is_absent(), Reason::UserInputNotRecorded, send.user_input)
            }
            Self::FinalOutput => (
                !trajectory.final_output.is_absent(),
                Reason::FinalOutputNotRecorded,
                send.final_output,
            ),
            Self::Calls => (!calls.is_empty(), Reason::NoToolCalls, Send::Full),
            Self::Arguments => (
                calls.iter().any(|call| !call.arguments.is_absent()),
                Reason::ArgumentsNotRecorded,
                send.arguments,
            ),
            Self::Tools => (
                !trajectory.tool_definitions.is_empty(),
                Reason::ToolDefinitionsNotRecorded,
                Send::Full,
            ),
            Self::Anything => {
                let texts = [&trajectory.user_input, &trajectory.final_output];
                let is_there = !calls.is_empty() || texts.into_iter().any(|it| !it.is_absent());
                (is_there, Reason::EvidenceNotRecorded, Send::Full)
            }
        };
        match (is_there, sent) {
            (false, _) => Some(reason),
            (true, Send::NamesOnly) => Some(Reason::ContentWithheld),
            (true, _) => None,
        }
    }
}

/// Trajectory with the settings of its question.
pub(crate) struct JudgedRun<'r, 't> {
    /// Judged trajectory.
    pub(crate) trajectory: &'r Trajectory<'t>,
    /// Settings common to all judged kinds.
    pub(crate) settings: &'r JudgedSettings,
}

impl JudgedRun<'_, '_> {
    /// Builds the record of the trajectory.
    pub(crate) fn record(&self, wishes: RecordWishes) -> RunRecord {
        RunRecord::of(self.trajectory, &self.settings.send, wishes)
    }
}

/// Returns the facts of every record.
pub(crate) fn record_facts() -> Facts {
    Facts {
        arguments: true,
        results: true,
        user_input: true,
        final_output: true,
        tool_definitions: true,
        attributes: operator::attributes(),
        ..Facts::default()
    }
}

/// Builds an inquiry about a trajectory, or its conclusion if known without asking.
pub(crate) fn inquire(
    run: &JudgedRun<'_, '_>,
    needs: &[NeededFact],
    threshold: f64,
    want: Want,
    question: impl FnOnce(&JudgedRun<'_, '_>) -> Result<Question, Outcome>,
) -> Inquired {
    if run.trajectory.bytes > EVIDENCE_BYTES_MAX {
        let words = format!(
            "the trace holds {} bytes, more than the {EVIDENCE_BYTES_MAX} that a record is made of",
            run.trajectory.bytes
        );
        return known(no_score(Reason::EvidenceTooLong, words));
    }
    if let Some(reason) = needs.iter().find_map(|need| need.missing(run)) {
        return known(no_score(reason, words_of(reason)));
    }
    let question = match question(run) {
        Ok(mut question) => {
            if run.settings.criteria_from_trace {
                question.record_criteria();
            }
            question
        }
        Err(outcome) => return known(outcome),
    };
    let is_settled = question.scoring != Scoring::Given
        && question.items.iter().all(|item| item.settled.is_some());
    let asked = AskedQuestion {
        question,
        redact: run.settings.redact,
        on_injection: run.settings.on_injection,
        is_jury: !run.settings.jury.is_empty(),
        threshold,
        want,
        rendered: Mutex::new(None),
    };
    if is_settled { Inquired::Known(asked.settled()) } else { Inquired::Asked(Arc::new(asked)) }
}

fn words_of(reason: Reason) -> &'static str {
    match reason {
        Reason::UserInputNotRecorded => "what the user asked is not recorded",
        Reason::FinalOutputNotRecorded => "what the agent answered is not recorded",
        Reason::NoToolCalls => "no tool was called",
        Reason::ArgumentsNotRecorded => "no arguments of the calls are recorded",
        Reason::ToolDefinitionsNotRecorded => "no definition of the tools is known",
        Reason::ContentWithheld => "`send` keeps back what would have to be judged",
        _ => "neither what was asked nor what was done or answered is recorded",
    }
}

fn known(outcome: Outcome) -> Inquired {
    Inquired::Known(Conclusion::of(outcome))
}

/// Kind with its settings.
struct StatementEvaluator<K> {
    kind: K,
    settings: JudgedSettings,
    plan: JudgePlan,
}

/// Builds the evaluator of a judged kind from its settings; `own` parses those of the kind.
pub(crate) fn build<K: JudgedKind>(
    node: &Node,
    own: impl FnOnce(&Node) -> Result<K, SettingsError>,
) -> Result<Evaluator, SettingsError> {
    let (settings, kind) = settings::read(node, own)?;
    let plan = settings.plan().ok_or_else(|| settings::no_judge(node))?;
    Ok(Evaluator::Judged(Box::new(StatementEvaluator { kind, settings, plan })))
}

/// Builds the evaluator of a judged kind with only the common settings.
pub(crate) fn build_plain<K: JudgedKind>(node: &Node, kind: K) -> Result<Evaluator, SettingsError> {
    build(node, |own| own.read().map(|NoSettings {}| kind))
}

impl<K: JudgedKind> JudgedEvaluator for StatementEvaluator<K> {
    fn facts(&self) -> Facts {
        record_facts().union(&self.kind.facts())
    }

    fn inquire(&self, trajectory: &Trajectory<'_>, threshold: f64, want: Want) -> Inquired {
        let run = JudgedRun { trajectory, settings: &self.settings };
        let question = |run: &JudgedRun<'_, '_>| self.kind.question(run);
        inquire(&run, self.kind.needs(), threshold, want, question)
    }

    fn plan(&self) -> &JudgePlan {
        &self.plan
    }
}
