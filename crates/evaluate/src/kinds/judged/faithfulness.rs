//! `faithfulness`: support of each sentence of the answer by the agent's knowledge.

use crate::evaluator::Kind;
use crate::judged::conclude::no_score;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{Question, QuestionItem};
use crate::judged::record::{LineKind, RecordWishes};
use crate::judged::settings::{self, NoSettings};
use crate::shared::sentences::first_sentences;
use spanscore_base::model::{Outcome, Reason};

/// Limit on the sentences asked about separately; the last statement has the remainder.
const SENTENCES_MAX: usize = 60;

const GUIDANCE: &str = "\
A sentence is supported if everything that it states stands in what user or operator said or in a \
result, or follows from these by arithmetic, conversion or plain reading; plain general knowledge \
needs no source. A number, name, date or claim that differs or has no source is no. A sentence \
that states nothing (a greeting, a question, an offer, a heading) is not_applicable. An answer is \
no source.";

/// Registry entry of `faithfulness`.
pub static KIND: Kind = Kind {
    name: "faithfulness",
    about: "Share of the answer's sentences that the user's input, the operator's instructions or \
            tool results support.",
    also_known_as: &[
        ("Faithfulness", "Ragas"),
        ("ResponseGroundedness", "Ragas"),
        ("FaithfulnessMetric", "DeepEval"),
        ("HallucinationMetric", "DeepEval"),
        ("context-faithfulness", "Promptfoo"),
    ],
    threshold: 0.8,
    schema: settings::schema::<NoSettings>,
    build: |node| kind::build_plain(node, Faithfulness),
    example: "\
faithfulness:
  judge: small
",
    ..Kind::PLAIN
};

struct Faithfulness;

impl JudgedKind for Faithfulness {
    fn needs(&self) -> &'static [NeededFact] {
        &[NeededFact::FinalOutput]
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let text = run.trajectory.final_output.to_text();
        let sentences = first_sentences(&text, SENTENCES_MAX);
        if sentences.is_empty() {
            return Err(no_score(Reason::NothingToJudge, "the answer states nothing"));
        }
        let count = sentences.len();
        let wishes = RecordWishes { answer_parts: Some(sentences), ..RecordWishes::default() };
        let record = run.record(wishes);
        // The last `count` answers are the sentences; earlier ones belong to earlier turns.
        let answers: Vec<u64> = record.of_kind(LineKind::Answer).map(|line| line.seq).collect();
        let asked = answers.iter().skip(answers.len() - count);
        let items = asked.map(|seq| {
            QuestionItem::new(format!("The sentence at seq {seq} is supported."))
                .named(format!("sentence at seq {seq}"))
        });
        let items = items.collect();
        Ok(Question::of(record, GUIDANCE, items))
    }
}
