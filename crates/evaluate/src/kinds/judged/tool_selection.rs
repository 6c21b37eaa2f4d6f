//! `tool_selection`: suitability of the called tools.

use crate::evaluator::Kind;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{ItemCall, Question, QuestionItem};
use crate::judged::record::RecordWishes;
use crate::judged::settings::{self, NoSettings};
use spanscore_base::model::Outcome;

const GUIDANCE: &str = "\
A call fits if, at its place and with what was known then, its tool could sensibly be used there \
and no other defined tool was clearly the better choice. A retry after an error fits. What the \
call was given and what it returned is not asked. A needed call is one without which the request \
cannot be met with the tools that are defined.";

/// Registry entry of `tool_selection`.
pub static KIND: Kind = Kind {
    name: "tool_selection",
    about: "Share of the calls whose tool was a fitting choice among the declared ones. A judge \
            also decides if a required call is missing. Each call also gets an evaluation on its \
            span.",
    threshold: 0.8,
    schema: settings::schema::<NoSettings>,
    build: |node| kind::build_plain(node, ToolSelection),
    example: "\
tool_selection:
  judge: small
",
    ..Kind::PLAIN
};

struct ToolSelection;

impl JudgedKind for ToolSelection {
    fn needs(&self) -> &'static [NeededFact] {
        &[NeededFact::Tools, NeededFact::UserInput]
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let record = run.record(RecordWishes::default());
        let calls = record.calls.iter().zip(&run.trajectory.tool_calls).enumerate();
        let mut items: Vec<_> = calls
            .map(|(place, (recorded, call))| {
                let seq = recorded.seq;
                QuestionItem {
                    call: Some(ItemCall { place, span_id: recorded.span_id }),
                    ..QuestionItem::new(format!("The call at seq {seq} fits."))
                        .named(format!("{} (seq {seq})", call.name))
                }
            })
            .collect();
        items.push(QuestionItem::new("No needed call is missing."));
        Ok(Question::of(record, GUIDANCE, items))
    }
}
