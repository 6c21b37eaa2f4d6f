//! `helpfulness`: usefulness of the answer for the person who asked.

use crate::evaluator::Kind;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{Question, QuestionItem};
use crate::judged::record::RecordWishes;
use crate::judged::settings::{self, NoSettings};
use spanscore_base::model::Outcome;

const STATEMENTS: [&str; 4] = [
    "The answer meets what the user asked for, in all its parts.",
    "The answer is specific to the request and to what the run found out.",
    "The user can use the answer as it is, without having to ask for what is missing.",
    "Nothing in the answer is needless, evasive or repeated.",
];

const GUIDANCE: &str = "\
Judge the agent's answers as the user reads them. What is true or false is asked elsewhere; here \
it counts what the user can do with the answer. A refusal or a question back that the request made \
necessary is judged for what it gives the user.";

/// Registry entry of `helpfulness`.
pub static KIND: Kind = Kind {
    name: "helpfulness",
    about: "Usefulness of the answer to the user: it meets the request, is specific, can be used \
            as it is, and contains nothing needless or evasive.",
    also_known_as: &[("AnswerRelevancyMetric", "DeepEval")],
    threshold: 0.75,
    schema: settings::schema::<NoSettings>,
    build: |node| kind::build_plain(node, Helpfulness),
    example: "\
helpfulness:
  judge: small
",
    ..Kind::PLAIN
};

struct Helpfulness;

impl JudgedKind for Helpfulness {
    fn needs(&self) -> &'static [NeededFact] {
        &[NeededFact::UserInput, NeededFact::FinalOutput]
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let items = STATEMENTS.into_iter().map(QuestionItem::new).collect();
        Ok(Question::of(run.record(RecordWishes::default()), GUIDANCE, items))
    }
}
