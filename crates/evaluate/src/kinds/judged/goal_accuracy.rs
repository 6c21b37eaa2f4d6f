//! `goal_accuracy`: final state of a run compared with the user's goal.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::Kind;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{Question, QuestionItem};
use crate::judged::record::RecordWishes;
use crate::judged::settings;
use spanscore_base::model::Outcome;

const GUIDANCE: &str = "\
The final state is what calls and their results left behind, and what the user was told of it. The \
way there is not asked. A detail that the user named and that differs, or a part that is missing, \
is no.";

/// Registry entry of `goal_accuracy`.
pub static KIND: Kind = Kind {
    name: "goal_accuracy",
    about: "Checks that the run ended in the state that the user wanted, or in the state that the \
            criteria describe.",
    also_known_as: &[
        ("Builtin.GoalSuccessRate", "AgentCore"),
        ("trajectory:goal-success", "Promptfoo"),
        ("AgentGoalAccuracy", "Ragas"),
        ("AgentGoalAccuracyWithReference", "Ragas"),
        ("AgentGoalAccuracyWithoutReference", "Ragas"),
        ("GoalAccuracyMetric", "DeepEval"),
    ],
    schema: settings::schema::<Settings>,
    build: |node| kind::build(node, |own| Ok(GoalAccuracy(own.read()?))),
    example: "\
goal_accuracy/booking:
  judge: small
  criteria:
    reference: A table for four is booked and the user has its code.
",
    ..Kind::PLAIN
};

/// Settings of `goal_accuracy`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Final state that the run must reach. Default: the request of the user.
    criteria: Criteria,
}

/// Final state that the run must reach.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Criteria {
    /// Description of the final state.
    reference: Option<String>,
}

struct GoalAccuracy(Settings);

impl JudgedKind for GoalAccuracy {
    fn needs(&self) -> &'static [NeededFact] {
        match self.0.criteria.reference {
            Some(_) => &[NeededFact::Anything],
            None => &[NeededFact::UserInput],
        }
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let item = match &self.0.criteria.reference {
            Some(reference) => QuestionItem::about("At the end of the run this holds: ", reference),
            None => QuestionItem::new(
                "At the end of the run the state is what the user finally wanted.",
            ),
        };
        let items = vec![item];
        Ok(Question::of(run.record(RecordWishes::default()), GUIDANCE, items))
    }
}
