//! `tool_argument_hallucination`: source of each call's arguments in earlier knowledge.
//!
//! Code decides calls whose values all occur literally in earlier text; a judge decides the rest.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::Kind;
use crate::judged::grounding::settle;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{ItemCall, Question, QuestionItem, ReplyForm, Scoring};
use crate::judged::record::RecordWishes;
use crate::judged::{DokimosReply, settings};
use crate::shared::report;
use spanscore_base::model::{Outcome, Want};
use spanscore_base::value::Map;

const GUIDANCE: &str = "\
Available means: said by user or operator, in a result with a smaller seq, in a tool definition, \
or following from these by arithmetic, conversion of unit, date or format, or common knowledge. \
Usual technical defaults and empty values are available. Composed text is available if each fact, \
name, number and identifier in it is. A plausible value without a source is no: guessed addresses, \
ids, paths, keys, columns; respelled names, swapped digits, another currency or unit. A result \
with the same or a larger seq, or one that only echoes an invented argument, is no source. Whether \
the value was wise is not asked.";

/// Registry entry of `tool_argument_hallucination`.
pub static KIND: Kind = Kind {
    name: "tool_argument_hallucination",
    about: "Share of the calls whose arguments were known before the call. Code finds literal \
            values, a judge decides about the rest. Each call also gets an evaluation on its span.",
    also_known_as: &[("ToolArgumentHallucinationEvaluator", "Dokimos")],
    threshold: 0.8,
    schema: settings::schema::<Settings>,
    build: |node| kind::build(node, |own| Ok(ArgumentHallucination(own.read()?))),
    example: "\
tool_argument_hallucination:
  judge: small
",
    ..Kind::PLAIN
};

/// Settings of `tool_argument_hallucination`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// `dokimos` reproduces the scores of Dokimos. All answers come from the judge, and a reply
    /// that cannot be read scores 0.
    compat: Option<HallucinationCompat>,
}

/// System whose scores are reproduced.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum HallucinationCompat {
    /// Dokimos.
    Dokimos,
}

struct ArgumentHallucination(Settings);

impl JudgedKind for ArgumentHallucination {
    fn needs(&self) -> &'static [NeededFact] {
        match self.0.compat {
            Some(HallucinationCompat::Dokimos) => &[NeededFact::UserInput],
            None => &[NeededFact::Calls, NeededFact::Arguments, NeededFact::UserInput],
        }
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let record = run.record(RecordWishes::default());
        let settled = match self.0.compat {
            Some(_) => vec![None; record.calls.len()],
            None => settle(&record, &run.trajectory.effort),
        };
        if record.calls.is_empty() {
            // Dokimos scores 1 without calls that could have invented anything.
            return Err(report::scored(1.0, Want::ALL, || "no tool was called", Map::new));
        }
        let calls = record.calls.iter().zip(&run.trajectory.tool_calls).zip(settled);
        let items = calls.enumerate().map(|(place, ((recorded, call), settled))| {
            let seq = recorded.seq;
            let words = format!("The arguments of the call at seq {seq} were available before it.");
            QuestionItem {
                call: Some(ItemCall { place, span_id: recorded.span_id }),
                sources_before: Some(seq),
                settled,
                ..QuestionItem::new(words).named(format!("{} (seq {seq})", call.name))
            }
        });
        let items: Vec<_> = items.collect();
        let (form, scoring) = match self.0.compat {
            Some(_) => (ReplyForm::Dokimos(DokimosReply::Calls(items.len())), Scoring::Given),
            None => (ReplyForm::Items, Scoring::Share),
        };
        Ok(Question { record, guidance: GUIDANCE.to_owned(), items, form, scoring })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inquiry::{Inquired, MarkKey, PromptRoom};
    use crate::judged::labelled::LabelledRun;
    use crate::judged::settings::JudgedSettings;

    fn check(compat: Option<HallucinationCompat>, reply: &str, expected: (f64, &[f64])) {
        let run = LabelledRun::read(
            r#"{"id":"a","evaluator":"x","label":{"verdict":"pass"},"trajectory":{
                "user_input":"Go","tool_calls":[{"name":"a","arguments":{"k":"key-1"}},
                {"name":"b","arguments":{"k":"key-2"}}]}}"#,
        );
        let run = run.unwrap();
        let trajectory = run.trajectory().unwrap();
        let settings = &JudgedSettings::default();
        let run = JudgedRun { trajectory: &trajectory, settings };
        let kind = ArgumentHallucination(Settings { compat });
        let asked = kind::inquire(&run, kind.needs(), 0.8, Want::ALL, |run| kind.question(run));
        let Inquired::Asked(inquiry) = asked else { panic!("a judge is asked") };
        let room = PromptRoom {
            evidence_tokens: 12_000,
            bytes_per_token: 3.5,
            answer_tokens: 2_048,
            withholds_injections: false,
            withheld: Vec::new(),
            window: 0,
            mark_key: MarkKey([7; 32]),
        };
        let told = inquiry.conclude(&room, &[inquiry.read(&room, reply).unwrap()]);
        let value = |outcome: &Outcome| match outcome {
            Outcome::Scored(score) => score.value,
            other => panic!("{other:?}"),
        };
        let calls: Vec<f64> = told.calls.iter().map(|(_, _, outcome)| value(outcome)).collect();
        assert_eq!((value(&told.outcome), &calls[..]), expected, "{reply}");
    }

    #[test]
    fn a_score_for_all_calls_is_none_of_each() {
        let reply = r#"[{"toolName":"a","grounded":false},{"toolName":"b","grounded":true}]"#;
        check(Some(HallucinationCompat::Dokimos), reply, (0.5, &[]));
        check(Some(HallucinationCompat::Dokimos), "I cannot say.", (0.0, &[]));
        let reply = r#"{"items":[{"id":1,"verdict":"no"},{"id":2,"verdict":"yes"}],
            "injection_suspected":false}"#;
        check(None, reply, (0.5, &[0.0, 1.0]));
    }
}
