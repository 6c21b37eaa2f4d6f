//! `tool_response_handling`: the agent's use of results, and its reaction to errors.

use crate::evaluator::Kind;
use crate::inquiry::JudgeAnswer;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{ItemCall, Question, QuestionItem};
use crate::judged::record::RecordWishes;
use crate::judged::settings::{self, NoSettings};
use spanscore_base::model::{CallStatus, Outcome};

const GUIDANCE: &str = "\
A result is read rightly if what the agent did and said after it agrees with it: no value changed, \
no failure taken for a success, nothing important left unused. An error is met sensibly by a retry \
that can help, a corrected call, another way, or an honest report. A result from which nothing \
followed and nothing had to follow is not_applicable.";

/// Registry entry of `tool_response_handling`.
pub static KIND: Kind = Kind {
    name: "tool_response_handling",
    about: "Share of the tool results that the agent understood correctly, and of the errors to \
            which it reacted sensibly. Each result also gets an evaluation on the span of its \
            call.",
    threshold: 0.8,
    schema: settings::schema::<NoSettings>,
    build: |node| kind::build_plain(node, ResponseHandling),
    example: "\
tool_response_handling:
  judge: small
",
    ..Kind::PLAIN
};

struct ResponseHandling;

impl JudgedKind for ResponseHandling {
    fn needs(&self) -> &'static [NeededFact] {
        &[NeededFact::Calls]
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let record = run.record(RecordWishes::default());
        let calls = record.calls.iter().zip(&run.trajectory.tool_calls).enumerate();
        let items = calls.filter_map(|(place, (recorded, call))| {
            let line = record.lines.get(recorded.result?)?;
            let seq = line.seq;
            let is_error = call.status == CallStatus::Error;
            let statement = if is_error {
                format!("The error at seq {seq} was met sensibly.")
            } else {
                format!("The result at seq {seq} was read rightly.")
            };
            // The use of an unrecorded result cannot be judged.
            let is_unknown = line.content.value().is_none() && !is_error;
            Some(QuestionItem {
                call: Some(ItemCall { place, span_id: recorded.span_id }),
                settled: is_unknown.then_some(JudgeAnswer::Unclear),
                ..QuestionItem::new(statement)
                    .named(format!("{} (seq {})", call.name, recorded.seq))
            })
        });
        let items = items.collect();
        Ok(Question::of(record, GUIDANCE, items))
    }
}
