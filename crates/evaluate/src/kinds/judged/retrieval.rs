//! `retrieval`: relevance of retrieved contexts, by rank or compared with a reference.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::Kind;
use crate::judged::conclude::no_score;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{Question, QuestionItem, Scoring};
use crate::judged::record::{LineKind, RunRecord};
use crate::judged::settings::{self, Send};
use crate::shared::report;
use crate::shared::sentences::first_sentences;
use spanscore_base::model::{Outcome, Reason, ToolCall, Trajectory, Want};
use spanscore_base::settings::SettingsError;
use spanscore_base::value::{Map, Value};

/// Limit on the contexts asked about; those of lower rank are left out.
const CONTEXTS_MAX: usize = 60;
/// Limit on the sentences of the reference asked about.
const SENTENCES_MAX: usize = 60;
/// Keys of context lists in results.
const LISTS: [&str; 9] =
    ["contexts", "documents", "results", "chunks", "passages", "hits", "items", "matches", "data"];

const GUIDANCE: &str = "\
The results are what was retrieved for the request, each on a line of its own, the best rank \
first. A result helps if the right answer to the request rests on something in it; the criterion, \
if there is one, is that answer. The same subject alone does not help. A sentence stands in the \
results if all that it states can be read there, in one or in several. The answer of the agent is \
no source.";

/// Registry entry of `retrieval`.
pub static KIND: Kind = Kind {
    name: "retrieval",
    about: "Quality of the texts that tools retrieved: helpful texts come first (`precision`), the \
            texts contain the reference (`recall`), or the texts help (`relevancy`).",
    also_known_as: &[
        ("ContextPrecision", "Ragas"),
        ("ContextRecall", "Ragas"),
        ("ContextRelevance", "Ragas"),
        ("ContextualPrecisionMetric", "DeepEval"),
        ("ContextualRecallMetric", "DeepEval"),
        ("ContextualRelevancyMetric", "DeepEval"),
    ],
    threshold: 0.5,
    schema: settings::schema::<Settings>,
    build: |node| {
        kind::build(node, |own| {
            let settings: Settings = own.read()?;
            let is_recall = settings.mode == RetrievalMode::Recall;
            if is_recall && settings.criteria.reference.trim().is_empty() {
                let error = SettingsError::new("`mode: recall` needs `criteria.reference`");
                return Err(error.with_help("give the answer as it ought to be").at(own.place));
            }
            Ok(Retrieval(settings))
        })
    },
    example: "\
retrieval/docs:
  judge: small
  only_tools: [search_*]
  criteria:
    reference: Returns are free within 14 days.
",
    ..Kind::PLAIN
};

/// Settings of `retrieval`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Correct answer.
    criteria: Criteria,
    /// Score: `precision` (default), `recall` or `relevancy`.
    mode: RetrievalMode,
}

/// Correct answer.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Criteria {
    /// Correct answer as text. `recall` searches the retrieved texts for its sentences; `precision`
    /// uses it to decide which retrieved texts help.
    reference: String,
}

/// Score of `retrieval`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RetrievalMode {
    /// Mean of the precision at each rank with a helpful text.
    #[default]
    Precision,
    /// Sentences of the reference that the retrieved texts contain, divided by all its sentences.
    Recall,
    /// Helpful retrieved texts, divided by all retrieved texts.
    Relevancy,
}

struct Retrieval(Settings);

impl JudgedKind for Retrieval {
    fn needs(&self) -> &'static [NeededFact] {
        &[NeededFact::UserInput, NeededFact::Calls]
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let send = &run.settings.send;
        if send.results == Send::NamesOnly {
            let words = "`send` keeps back the results, of which something was to be found";
            return Err(no_score(Reason::ContentWithheld, words));
        }
        let contexts = contexts(run.trajectory);
        if contexts.is_empty() {
            return Err(nothing_found(run.trajectory));
        }
        let mut record = RunRecord::of_request(run.trajectory, send);
        let mut push = |context| record.push_whole(LineKind::Result, context, send.results);
        let seqs: Vec<u64> = contexts.into_iter().map(&mut push).collect();
        record.push_final_output(run.trajectory, send);
        let reference = self.0.criteria.reference.trim();
        let items = match self.0.mode {
            RetrievalMode::Recall => first_sentences(reference, SENTENCES_MAX)
                .iter()
                .map(|sentence| QuestionItem::about("It stands in the results: ", sentence))
                .collect(),
            RetrievalMode::Precision | RetrievalMode::Relevancy => {
                let aim = match reference {
                    "" => String::new(),
                    _ => format!(" to answer as at seq {}", record.push_criterion(reference)),
                };
                let helps = |seq| QuestionItem::new(format!("The result at seq {seq} helps{aim}."));
                let named = |seq| helps(seq).named(format!("result at seq {seq}"));
                seqs.into_iter().map(named).collect()
            }
        };
        let scoring = match self.0.mode {
            RetrievalMode::Precision => Scoring::Ranked,
            RetrievalMode::Recall | RetrievalMode::Relevancy => Scoring::Share,
        };
        Ok(Question { scoring, ..Question::of(record, GUIDANCE, items) })
    }
}

/// Returns the outcome without recorded contexts: 0 if the search is known to have found none.
fn nothing_found(trajectory: &Trajectory<'_>) -> Outcome {
    let is_known = |call: &ToolCall<'_>| call.result.value().is_some_and(|it| !it.is_null());
    if trajectory.tool_calls.iter().all(is_known) {
        let words = "the results are recorded, and hold no context";
        report::scored(0.0, Want::ALL, || words, Map::new)
    } else if trajectory.tool_calls.iter().any(is_known) {
        let words = "some results hold no context, and others are not recorded";
        no_score(Reason::NothingToJudge, words)
    } else {
        no_score(Reason::NothingToJudge, "no result of a call is recorded")
    }
}

/// Returns the retrieved contexts, in the order of the calls and the rank within each.
fn contexts(trajectory: &Trajectory<'_>) -> Vec<Value<'static>> {
    let results = trajectory.tool_calls.iter().filter_map(|call| call.result.value());
    let contexts = results.flat_map(|result| match list_of(result) {
        Some(list) => list.iter().collect::<Vec<_>>(),
        None => vec![result],
    });
    let is_said = |value: &&Value<'_>| !value.is_null();
    contexts.filter(is_said).take(CONTEXTS_MAX).map(|value| value.clone().into_owned()).collect()
}

/// Returns the list of contexts in a result: itself, or under one of the usual keys.
fn list_of<'v>(result: &'v Value<'_>) -> Option<&'v [Value<'v>]> {
    let own = result.as_list();
    own.or_else(|| LISTS.iter().find_map(|key| result.get(key).and_then(Value::as_list)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inquiry::Inquired;
    use crate::judged::labelled::LabelledRun;
    use crate::judged::settings::JudgedSettings;

    fn check(calls: &str, expected: &str) {
        let run = LabelledRun::read(&format!(
            r#"{{"id":"a","evaluator":"x","label":{{"verdict":"pass"}},"trajectory":{{
                "user_input":"Which paint?","tool_calls":[{calls}]}}}}"#
        ));
        let run = run.unwrap();
        let trajectory = run.trajectory().unwrap();
        let settings = &JudgedSettings::default();
        let run = JudgedRun { trajectory: &trajectory, settings };
        for mode in [RetrievalMode::Precision, RetrievalMode::Recall, RetrievalMode::Relevancy] {
            let kind = Retrieval(Settings { mode, ..Settings::default() });
            let asked = kind::inquire(&run, kind.needs(), 0.5, Want::ALL, |run| kind.question(run));
            let found = match asked {
                Inquired::Asked(_) => "asked".to_owned(),
                Inquired::Known(told) => match told.outcome {
                    Outcome::Scored(score) => format!("{}", score.value),
                    Outcome::NotEvaluable { reason, explanation } => {
                        format!("{}: {explanation}", reason.as_str())
                    }
                    other => format!("{other:?}"),
                },
            };
            assert_eq!(found, expected, "{mode:?} {calls}");
        }
    }

    #[test]
    fn a_retrieval_that_found_nothing_is_the_worst_and_an_unknown_one_is_none() {
        let empty = r#"{"name":"a","result":{"documents":[]}}"#;
        let unknown = r#"{"name":"b"}"#;
        check(empty, "0");
        check(r#"{"name":"a","result":[]}"#, "0");
        check(unknown, "nothing_to_judge: no result of a call is recorded");
        let both = "nothing_to_judge: some results hold no context, and others are not recorded";
        check(&format!("{empty},{unknown}"), both);
    }
}
