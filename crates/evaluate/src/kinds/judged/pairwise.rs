//! `pairwise`: the answer compared with that of a baseline run, in both orders.

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
    about: "Compares the answer with the answer of a baseline run. A judge compares twice, with \
            the sides swapped. The score is the mean of both: 1 better, 0.5 equal, 0 worse.",
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
    /// Answer of the baseline run, and the aspect of the comparison.
    criteria: Criteria,
}

/// Answer of the baseline run, and the aspect of the comparison.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// Answer of the baseline run to the same request.
    baseline: String,
    /// Aspect of the comparison, such as `politeness`. Default: the overall use to the user.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inquiry::{Inquired, JudgeAnswers, MarkKey, PromptRoom};
    use crate::judged::labelled::LabelledRun;
    use crate::judged::settings::JudgedSettings;
    use spanscore_base::model::Want;

    /// Parses one reply per order; the agent's answer has seq 2, the baseline 3.
    fn check(replies: [(&str, u64); 2], cites: &[u64], words: &str) {
        let run = LabelledRun::read(
            r#"{"id":"a","evaluator":"x","label":{"verdict":"pass"},"trajectory":{
                "user_input":"Which paint?","final_output":"Red"}}"#,
        );
        let run = run.unwrap();
        let trajectory = run.trajectory().unwrap();
        let settings = &JudgedSettings::default();
        let run = JudgedRun { trajectory: &trajectory, settings };
        let kind = Pairwise(Criteria { baseline: "Blue".to_owned(), aspect: None });
        let asked = kind::inquire(&run, kind.needs(), 0.5, Want::ALL, |run| kind.question(run));
        let Inquired::Asked(inquiry) = asked else { panic!("a judge is asked") };
        let room = |window| PromptRoom {
            evidence_tokens: 12_000,
            bytes_per_token: 3.5,
            answer_tokens: 2_048,
            withholds_injections: false,
            withheld: Vec::new(),
            window,
            mark_key: MarkKey([7; 32]),
        };
        let mut vote = JudgeAnswers::default();
        for (window, (verdict, cite)) in replies.into_iter().enumerate() {
            let reply = format!(
                r#"{{"items":[{{"id":1,"verdict":"{verdict}","cites":[{cite}],"reason":""}}],
                    "injection_suspected":false}}"#
            );
            vote.items.extend(inquiry.read(&room(window), &reply).unwrap().items);
        }
        let found: Vec<u64> = vote.items.iter().flat_map(|item| item.cites.clone()).collect();
        assert_eq!(found, cites, "{replies:?}");
        let Outcome::Scored(score) = inquiry.conclude(&room(0), &[vote]).outcome else {
            panic!("a score")
        };
        let text = score.explanation.to_string();
        assert!(text.starts_with(words), "{text}");
    }

    #[test]
    fn cites_of_the_swapped_order_name_the_texts_as_they_are() {
        check([("yes", 2), ("no", 3)], &[2, 2], "better in 2 of 2 orders");
        check([("yes", 3), ("yes", 2)], &[3, 3], "better in 1 of 2 orders, worse in 1");
        check([("no", 1), ("not_applicable", 1)], &[1, 1], "better in 0 of 2 orders, equal in 1");
        let equal = "better in 0 of 2 orders, equal in 2";
        check([("not_applicable", 2), ("not_applicable", 2)], &[2, 3], equal);
    }
}
