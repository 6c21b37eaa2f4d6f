//! `plan_quality`: quality of the agent's plan.

use schemars::JsonSchema;
use serde::Deserialize;

use super::plan::{PlanSource, steps};
use crate::evaluator::Kind;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{Question, QuestionItem};
use crate::judged::record::RecordWishes;
use crate::judged::settings;
use spanscore_base::model::{Facts, Outcome};

const STATEMENTS: [&str; 4] = [
    "The plan covers all that the user asked for.",
    "The steps of the plan stand in an order that can work.",
    "No step of the plan is needless.",
    "Each step of the plan is concrete enough to act on.",
];

const GUIDANCE: &str = "\
The plan is the lines of kind plan, one a step. Judge it as a plan, by what was known when it was \
made; whether it was followed is not asked.";

/// Registry entry of `plan_quality`.
pub static KIND: Kind = Kind {
    name: "plan_quality",
    about: "Quality of the agent's plan: it covers the request in a workable order, has no \
            needless step, and is concrete enough to follow.",
    also_known_as: &[("PlanQuality", "Dokimos"), ("PlanQualityMetric", "DeepEval")],
    threshold: 0.5,
    schema: settings::schema::<Settings>,
    build: |node| kind::build(node, |own| Ok(PlanQuality(own.read()?))),
    example: "\
plan_quality:
  judge: small
  plan: {attribute: agent.plan}
",
    ..Kind::PLAIN
};

/// Settings of `plan_quality`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Source of the plan.
    plan: PlanSource,
}

struct PlanQuality(Settings);

impl JudgedKind for PlanQuality {
    fn needs(&self) -> &'static [NeededFact] {
        &[NeededFact::UserInput]
    }

    fn facts(&self) -> Facts {
        self.0.plan.facts()
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let plan = steps(&self.0.plan, run.trajectory)?;
        let record = run.record(RecordWishes { plan, ..RecordWishes::default() });
        let items = STATEMENTS.into_iter().map(QuestionItem::new).collect();
        Ok(Question::of(record, GUIDANCE, items))
    }
}
