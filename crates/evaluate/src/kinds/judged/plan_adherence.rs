//! `plan_adherence`: the agent's run compared with its plan.

use schemars::JsonSchema;
use serde::Deserialize;

use super::plan::{PlanSource, steps};
use crate::evaluator::Kind;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{Question, QuestionItem};
use crate::judged::record::{LineKind, RecordWishes};
use crate::judged::settings;
use spanscore_base::model::{Facts, Outcome};

const GUIDANCE: &str = "\
The plan is the lines of kind plan, one a step. A step is done if calls and results show it, or \
the answer where the step is only to say something; a step out of its order is no where the order \
matters. A step that a result made pointless is not_applicable. A major action changes something \
outside the run or spends much; looking things up for a step is not one.";

/// Registry entry of `plan_adherence`.
pub static KIND: Kind = Kind {
    name: "plan_adherence",
    about: "Share of the steps of its plan that the agent did in their order. A judge also decides \
            if the run kept to the plan.",
    also_known_as: &[("PlanAdherence", "Dokimos"), ("PlanAdherenceMetric", "DeepEval")],
    threshold: 0.5,
    schema: settings::schema::<Settings>,
    build: |node| kind::build(node, |own| Ok(PlanAdherence(own.read()?))),
    example: "\
plan_adherence:
  judge: small
  plan: {tool: write_todos}
",
    ..Kind::PLAIN
};

/// Settings of `plan_adherence`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Source of the plan.
    plan: PlanSource,
}

struct PlanAdherence(Settings);

impl JudgedKind for PlanAdherence {
    fn needs(&self) -> &'static [NeededFact] {
        &[]
    }

    fn facts(&self) -> Facts {
        self.0.plan.facts()
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let plan = steps(&self.0.plan, run.trajectory)?;
        let record = run.record(RecordWishes { plan, ..RecordWishes::default() });
        let mut items: Vec<_> = record
            .of_kind(LineKind::Plan)
            .map(|line| {
                let seq = line.seq;
                QuestionItem::new(format!("The step at seq {seq} was done, in its order."))
                    .named(format!("step at seq {seq}"))
            })
            .collect();
        items.push(QuestionItem::new("No major action was taken outside the plan."));
        Ok(Question::of(record, GUIDANCE, items))
    }
}
