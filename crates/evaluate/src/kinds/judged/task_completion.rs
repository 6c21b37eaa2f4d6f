//! `task_completion`: the agent's run compared with its tasks and constraints.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::Kind;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::prompt::quoted;
use crate::judged::question::{Question, QuestionItem, ReplyForm, Scoring};
use crate::judged::record::{LineKind, RecordWishes};
use crate::judged::{DokimosReply, settings};
use crate::shared::report;
use spanscore_base::model::{Outcome, Want};
use spanscore_base::settings::SettingsError;
use spanscore_base::value::Map;

/// Limit on tasks and constraints together.
const STATEMENTS_MAX: usize = 50;

const GUIDANCE: &str = "\
A task counts as a whole: a wrong amount, date, person, place, or only a part of it, is no. A \
refusal, a question back or an honest report of failure is no for the task itself. Where no action \
is needed the answer's content counts; clumsy wording undoes nothing.";

/// Registry entry of `task_completion`.
pub static KIND: Kind = Kind {
    name: "task_completion",
    about: "Checks that the agent completed its tasks. A judge decides about each task and \
            constraint.",
    also_known_as: &[
        ("TaskAdherenceEvaluator", "Azure AI Evaluation"),
        ("IntentResolutionEvaluator", "Azure AI Evaluation"),
        ("TaskCompletionEvaluator", "Dokimos"),
        ("TaskCompletionMetric", "DeepEval"),
    ],
    threshold: 0.5,
    schema: settings::schema::<Settings>,
    build: |node| {
        kind::build(node, |own| {
            let settings: Settings = own.read()?;
            let count = settings.criteria.tasks.iter().flatten().count()
                + settings.criteria.constraints.len();
            if count > STATEMENTS_MAX {
                let error = format!("more than {STATEMENTS_MAX} tasks and constraints");
                return Err(SettingsError::new(error).at(own.place));
            }
            if settings.compat.is_some() && settings.criteria.tasks.is_none() {
                let error = SettingsError::new("`compat: dokimos` needs `criteria.tasks`");
                return Err(error.with_help("list the tasks").at(own.place));
            }
            Ok(TaskCompletion(settings))
        })
    },
    example: "\
task_completion/refunds:
  judge: small
  criteria:
    tasks: [Refund the order]
    constraints: [Do not promise a date]
",
    ..Kind::PLAIN
};

/// Settings of `task_completion`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Tasks and constraints. Default: everything that the user asked for is a task.
    criteria: Criteria,
    /// `dokimos` reproduces the scores of Dokimos. A reply that cannot be read scores 0.
    compat: Option<TaskCompat>,
}

/// Tasks and constraints.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Criteria {
    /// Tasks, each judged as done or not done.
    tasks: Option<Vec<String>>,
    /// Constraints, each judged as kept throughout the run or not.
    constraints: Vec<String>,
}

/// System whose scores are reproduced.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TaskCompat {
    /// Dokimos.
    Dokimos,
}

struct TaskCompletion(Settings);

impl JudgedKind for TaskCompletion {
    fn needs(&self) -> &'static [NeededFact] {
        match (&self.0.criteria.tasks, self.0.compat) {
            (_, Some(TaskCompat::Dokimos)) | (None, None) => &[NeededFact::UserInput],
            (Some(_), None) => &[NeededFact::Anything],
        }
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        if self.0.compat.is_some() {
            // Dokimos scores 1 without tasks.
            let is_none = self.0.criteria.tasks.as_ref().is_none_or(Vec::is_empty);
            let nothing = || report::scored(1.0, Want::ALL, || "no tasks to evaluate", Map::new);
            return if is_none { Err(nothing()) } else { Ok(self.dokimos(run)) };
        }
        let task = |task: &String| QuestionItem::about("Done, wholly and rightly: ", task);
        let kept = |constraint: &String| QuestionItem::about("Kept throughout: ", constraint);
        let everything = "everything the user asked for".to_owned();
        let tasks = match &self.0.criteria.tasks {
            Some(tasks) => tasks.iter().map(task).collect(),
            None => vec![task(&everything)],
        };
        let constraints = self.0.criteria.constraints.iter().map(kept);
        Ok(Question {
            record: run.record(RecordWishes::default()),
            guidance: GUIDANCE.to_owned(),
            items: tasks.into_iter().chain(constraints).collect(),
            form: ReplyForm::Items,
            scoring: Scoring::Share,
        })
    }
}

impl TaskCompletion {
    /// Builds Dokimos' question: only the dialog, and a score in the reply; without tasks nothing
    /// is asked.
    fn dokimos(&self, run: &JudgedRun<'_, '_>) -> Question {
        let tasks = self.0.criteria.tasks.as_deref().unwrap_or_default();
        let mut record = run.record(RecordWishes::default());
        let is_dialog = |kind| matches!(kind, LineKind::User | LineKind::Answer);
        record.lines.retain(|line| is_dialog(line.kind) && line.content.value().is_some());
        record.calls.clear();
        let item = |task: &String| QuestionItem::new(format!("Task: {}", quoted(task)));
        let constraints = self.0.criteria.constraints.iter().map(|kept| quoted(kept));
        let constraints: Vec<String> = constraints.collect();
        let guidance = if constraints.is_empty() {
            String::new()
        } else {
            format!("Constraints: {}", constraints.join(", "))
        };
        Question {
            record,
            guidance,
            items: tasks.iter().map(item).collect(),
            form: ReplyForm::Dokimos(DokimosReply::Tasks(tasks.len())),
            scoring: Scoring::Given,
        }
    }
}
