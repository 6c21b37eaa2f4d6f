//! `topic_adherence`: answers to requests within the agent's topics, and only to those.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::Kind;
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::prompt::quoted;
use crate::judged::question::{Question, QuestionItem, ReplyForm, Scoring};
use crate::judged::record::{LineKind, RecordWishes};
use crate::judged::{TopicMode, settings};
use spanscore_base::model::Outcome;
use spanscore_base::settings::SettingsError;

/// Limit on the turns asked about; later ones are left out.
const TURNS_MAX: usize = 40;

const GUIDANCE: &str = "\
A request is within the topics if one of them covers what the user wants by it; small talk around \
such a request belongs to it. It was answered if the agent gave, did or found out what was asked, \
be it in part; to decline or to point elsewhere is no answer.";

/// Registry entry of `topic_adherence`.
pub static KIND: Kind = Kind {
    name: "topic_adherence",
    about: "Checks that the agent answered requests within its topics and declined others. A \
            session is judged turn by turn.",
    also_known_as: &[("TopicAdherenceScore", "Ragas"), ("TopicAdherenceMetric", "DeepEval")],
    threshold: 0.8,
    schema: settings::schema::<Settings>,
    build: |node| {
        kind::build(node, |own| {
            let settings: Settings = own.read()?;
            if settings.criteria.topics.is_empty() {
                let error = SettingsError::new("`criteria.topics` is empty");
                return Err(error.with_help("list what the agent is for").at(own.place));
            }
            Ok(TopicAdherence(settings))
        })
    },
    example: "\
topic_adherence/shop:
  judge: small
  level: session
  mode: f1
  criteria:
    topics: [orders and refunds, products of the shop]
",
    ..Kind::PLAIN
};

/// Settings of `topic_adherence`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Topics of the agent.
    criteria: Criteria,
    /// Score: `accuracy` (default), `precision`, `recall` or `f1`.
    mode: TopicMode,
}

/// Topics of the agent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Criteria {
    /// Topics that the agent should answer, such as `refunds`.
    topics: Vec<String>,
}

struct TopicAdherence(Settings);

impl JudgedKind for TopicAdherence {
    fn needs(&self) -> &'static [NeededFact] {
        &[NeededFact::UserInput]
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let mut record = run.record(RecordWishes::default());
        let topics = &self.0.criteria.topics;
        let guidance = if run.settings.criteria_from_trace {
            topics.iter().for_each(|topic| _ = record.push_criterion(topic));
            format!("The topics are the lines of kind criterion. {GUIDANCE}")
        } else {
            let topics: Vec<String> = topics.iter().map(|topic| quoted(topic)).collect();
            format!("The topics: {}. {GUIDANCE}", topics.join(", "))
        };
        let turns = record.of_kind(LineKind::User).take(TURNS_MAX);
        let items = turns.flat_map(|line| {
            let seq = line.seq;
            [
                QuestionItem::new(format!("The request at seq {seq} is within the topics.")),
                QuestionItem::new(format!("The request at seq {seq} was answered.")),
            ]
        });
        let items = items.collect();
        let form = ReplyForm::Items;
        Ok(Question { record, guidance, items, form, scoring: Scoring::Topics(self.0.mode) })
    }
}
