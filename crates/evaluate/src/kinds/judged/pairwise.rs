//! `pairwise`: the answer beside that of a baseline run, in either order.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::Kind;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{Question, QuestionItem, ReplyForm, Scoring};
use crate::judged::record::{LineKind, RunRecord};
use crate::judged::settings;
use spanscore_base::model::Outcome;
use spanscore_base::value::Value;

const GUIDANCE: &str = "\
Both answers reply to the same request; nothing is known of how either came about. Better is what \
serves the user more: right, complete, to the point. Order, length and style alone make no answer \
better, and an answer that praises itself gains nothing by it. If neither is better, the statement \
is not_applicable; unclear is only what is cut or unknown.";

/// Registry entry of `pairwise`.
pub static KIND: Kind = Kind {
    name: "pairwise",
    about: "Compares the answer with that of a baseline run: a judge is asked twice, with the \
            sides swapped. 1 is better, 0 worse in both orders, half is neither.",
    also_known_as: &[("ArenaGEval", "DeepEval")],
    threshold: 0.5,
    needs_criteria: true,
    early: false,
    schema: settings::schema::<Settings>,
    build: |node| kind::build(node, |own| own.read().map(|it: Settings| Pairwise(it.criteria))),
    example: "\
pairwise/release:
  judge: small
  criteria:
    baseline: You can return it within 14 days.
",
};

/// Settings of `pairwise`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// The other answer, and the aspect that counts.
    criteria: Criteria,
}

/// The other answer, and the aspect that counts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// Answer of the baseline run to the same request.
    baseline: String,
    /// Aspect that counts alone, such as `politeness`; without it all that serves the user.
    #[serde(default)]
    aspect: Option<String>,
}

struct Pairwise(Criteria);

impl JudgedKind for Pairwise {
    fn needs(&self) -> &'static [NeededFact] {
        &[NeededFact::UserInput, NeededFact::FinalOutput]
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let send = &run.settings.send;
        let mut record = RunRecord::of_request(run.trajectory, send);
        let own = record.push_final_output(run.trajectory, send);
        let baseline = Value::from(self.0.baseline.clone());
        let other = record.push_whole(LineKind::Answer, baseline, send.final_output);
        let by = self.0.aspect.as_deref().map_or_else(String::new, |aspect| {
            format!(", by what stands at seq {} alone", record.push_criterion(aspect))
        });
        let statement = format!("The answer at seq {own} is better than that at seq {other}{by}.");
        let item = |name: &str, inverted| QuestionItem {
            inverted,
            ..QuestionItem::new(statement.clone()).named(name)
        };
        Ok(Question {
            record,
            guidance: GUIDANCE.to_owned(),
            items: vec![
                item("better, shown before the baseline", false),
                item("worse, shown behind the baseline", true),
            ],
            form: ReplyForm::Items,
            scoring: Scoring::Preference,
        })
    }
}
