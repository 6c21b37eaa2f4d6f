//! `rubric`: custom statements, steps that lead to a score, a custom prompt, or an expected answer
//! or behaviour.

mod presets;
mod template;

use schemars::JsonSchema;
use serde::Deserialize;

use self::template::{PromptTemplate, TemplateSettings};
use crate::evaluator::{Evaluator, Kind};
use crate::judged::kind::{self, JudgedKind, JudgedRun, NeededFact};
use crate::judged::question::{Question, QuestionItem, ReplyForm, Scoring};
use crate::judged::record::RecordWishes;
use crate::judged::settings;
use spanscore_base::model::Outcome;
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::Value;

/// Limit on statements or steps.
const STATEMENTS_MAX: usize = 50;

const GUIDANCE: &str = "\
The statements were written by those who run the agent. Judge each as it is written, by itself.";

/// Registry entry of `rubric`.
pub static KIND: Kind = Kind {
    name: "rubric",
    about: "Judges the run by a rubric of your own: weighted statements (or a built-in set), steps \
            that end in a score, a prompt with variables, or the expected output or behaviour.",
    also_known_as: &[
        ("model_graded_qa", "Inspect"),
        ("GEval", "DeepEval"),
        ("ConversationalGEval", "DeepEval"),
        ("PromptAlignmentMetric", "DeepEval"),
        ("BiasMetric", "DeepEval"),
        ("ToxicityMetric", "DeepEval"),
        ("AspectCritic", "Ragas"),
        ("RubricsScore", "Ragas"),
        ("uipath-llm-judge-output-semantic-similarity", "UiPath"),
        ("uipath-llm-judge-trajectory-similarity", "UiPath"),
        ("llm-rubric", "Promptfoo"),
        ("LLMJudge", "Pydantic Evals"),
    ],
    threshold: 0.7,
    schema: settings::schema::<Settings>,
    build,
    example: "\
rubric/tone:
  judge: small
  criteria:
    statements:
      - text: The answer is polite.
      - {text: The answer promises nothing that was not done., weight: 3, veto: true}
",
    ..Kind::PLAIN
};

/// Settings of `rubric`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Question to the judge, in one of several forms.
    criteria: Criteria,
    /// Built-in statements: `bias`, `coding_agent`, `customer_support`, `research_answer`,
    /// `safe_actions`, `safety` or `toxicity`. Statements in `criteria` are added.
    preset: Option<String>,
    /// System whose scores are reproduced. `uipath`: the judge gives 0 to 100 for `expected_output`
    /// or `expected_agent_behavior`, rounded like the UiPath package.
    compat: Option<RubricCompat>,
}

/// Question to the judge, in one of several forms.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Criteria {
    /// Statements that the judge answers one by one with yes or no.
    statements: Vec<RubricStatement>,
    /// Steps that the judge follows before it gives one score.
    evaluation_steps: Vec<String>,
    /// Prompt of your own. It follows the record of the run.
    prompt: Option<TemplateSettings>,
    /// Lowest and highest score of `evaluation_steps` (default `[0, 10]`) or of `prompt`. A prompt
    /// without a range is answered with yes or no.
    score_range: Option<[i64; 2]>,
    /// Expected final output of the agent.
    expected_output: Option<Value<'static>>,
    /// Description of the expected behaviour of the agent.
    expected_agent_behavior: Option<String>,
}

/// Statement of a rubric.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RubricStatement {
    /// Statement that should be true of the run.
    text: String,
    /// Weight in the score, above 0. Default 1.
    #[serde(default = "one")]
    weight: f64,
    /// Fails the evaluation if the answer is no, whatever the score. Default `false`.
    #[serde(default)]
    veto: bool,
}

fn one() -> f64 {
    1.0
}

/// System whose scores are reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RubricCompat {
    /// The UiPath package.
    Uipath,
}

/// Form of a rubric.
enum Rubric {
    Statements(Vec<RubricStatement>),
    Steps { steps: Vec<String>, low: i64, high: i64 },
    Prompt { template: PromptTemplate, range: Option<[i64; 2]> },
    Expected { words: &'static str, expected: String, name: &'static str, in_percent: bool },
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    kind::build(node, |own| {
        let settings: Settings = own.read()?;
        rubric(settings).map_err(|error| error.at(own.place_of("criteria")))
    })
}

fn rubric(settings: Settings) -> Result<Rubric, SettingsError> {
    let Settings { criteria, preset, compat } = settings;
    let mut statements = match &preset {
        Some(name) => presets::statements(name)?,
        None => Vec::new(),
    };
    statements.extend(criteria.statements);
    let expected = match (&criteria.expected_output, &criteria.expected_agent_behavior) {
        (Some(output), None) => {
            let output = output.to_text().into_owned();
            Some(("The final answer says the same as ", output, "expected_output"))
        }
        (None, Some(behavior)) => {
            let behavior = behavior.clone();
            Some(("The agent behaved as expected: ", behavior, "expected_agent_behavior"))
        }
        _ => None,
    };
    let forms = [
        !statements.is_empty(),
        !criteria.evaluation_steps.is_empty(),
        criteria.prompt.is_some(),
        criteria.expected_output.is_some(),
        criteria.expected_agent_behavior.is_some(),
    ];
    if forms.iter().filter(|form| **form).count() != 1 {
        return Err(SettingsError::new("a rubric needs exactly one form of criteria").with_help(
            "give `statements` (or a `preset`), `evaluation_steps`, `prompt`, `expected_output` or \
             `expected_agent_behavior`",
        ));
    }
    let in_percent = compat == Some(RubricCompat::Uipath);
    if let Some((words, expected, name)) = expected {
        return Ok(Rubric::Expected { words, expected, name, in_percent });
    }
    if in_percent {
        return Err(SettingsError::new("`compat: uipath` takes no statements or steps")
            .with_help("give `expected_output` or `expected_agent_behavior`"));
    }
    if statements.len().max(criteria.evaluation_steps.len()) > STATEMENTS_MAX {
        return Err(SettingsError::new(format!("more than {STATEMENTS_MAX} statements or steps")));
    }
    if let Some(wrong) = statements.iter().find(|one| !(one.weight > 0.0 && one.weight.is_finite()))
    {
        let error = format!("`weight` {} is not above 0", wrong.weight);
        return Err(SettingsError::new(error).with_help("leave the statement out"));
    }
    if criteria.score_range.is_some_and(|[low, high]| low >= high) {
        return Err(SettingsError::new(
            "the highest score of `score_range` is not above the lowest",
        )
        .with_help("write the lowest score, then the highest: `[0, 10]`"));
    }
    if let Some(prompt) = criteria.prompt {
        let template = PromptTemplate::new(prompt)?;
        return Ok(Rubric::Prompt { template, range: criteria.score_range });
    }
    if statements.is_empty() {
        let [low, high] = criteria.score_range.unwrap_or([0, 10]);
        return Ok(Rubric::Steps { steps: criteria.evaluation_steps, low, high });
    }
    Ok(Rubric::Statements(statements))
}

impl JudgedKind for Rubric {
    fn needs(&self) -> &'static [NeededFact] {
        match self {
            Self::Expected { name: "expected_output", .. } => &[NeededFact::FinalOutput],
            _ => &[NeededFact::Anything],
        }
    }

    fn question(&self, run: &JudgedRun<'_, '_>) -> Result<Question, Outcome> {
        let record = run.record(RecordWishes::default());
        if let Self::Prompt { template, range } = self {
            return Ok(template.question(record, *range, run.settings.criteria_from_trace));
        }
        let plain = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (items, form) = match self {
            Self::Statements(statements) => {
                let item = |one: &RubricStatement| QuestionItem {
                    weight: one.weight,
                    veto: one.veto,
                    ..QuestionItem::about("Of this run it is true: ", &plain(&one.text))
                };
                (statements.iter().map(item).collect(), ReplyForm::Items)
            }
            Self::Steps { steps, low, high } => {
                let items =
                    steps.iter().map(|step| QuestionItem::about("Step: ", &plain(step))).collect();
                (items, ReplyForm::Score { low: *low, high: *high })
            }
            Self::Prompt { .. } => (Vec::new(), ReplyForm::Items),
            Self::Expected { words, expected, name, in_percent } => {
                let form = if *in_percent { ReplyForm::UiPath } else { ReplyForm::Items };
                (vec![QuestionItem::about(words, expected).named(*name)], form)
            }
        };
        let scoring = if form == ReplyForm::Items { Scoring::Share } else { Scoring::Given };
        Ok(Question { record, guidance: GUIDANCE.to_owned(), items, form, scoring })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::settings::yaml;

    fn check(settings: &str, expected: &str) {
        let node = yaml::read(&format!("judge: small\n{settings}")).unwrap();
        let found = build(&node).map_or_else(|error| error.to_string(), |_| "built".to_owned());
        assert!(found.starts_with(expected), "{settings}: {found}");
    }

    #[test]
    fn a_rubric_has_one_form() {
        check("criteria: {statements: [{text: a}]}", "built");
        check("criteria: {evaluation_steps: [a], score_range: [1, 5]}", "built");
        check(
            "criteria: {evaluation_steps: [a], score_range: [5, 5]}",
            "the highest score of `score_range` is not above the lowest",
        );
        check("criteria: {expected_output: {a: 1}}\ncompat: uipath", "built");
        check("criteria: {statements: [{text: a}]}\ncompat: uipath", "`compat: uipath` takes no");
        check(
            "criteria: {prompt: {template: 'Is {{answer}} {{how}}?', variables: {how: a}}}",
            "built",
        );
        check("criteria: {prompt: {template: a}, score_range: [5, 1]}", "the highest score");
        check("criteria: {prompt: {template: '{{anser}}'}}", "`{{anser}}` names no variable");
        check("criteria: {}", "a rubric needs exactly one form of criteria");
        check("criteria: {statements: [{text: a}], expected_output: b}", "a rubric needs");
        check("criteria: {statements: [{text: a, weight: 0}]}", "`weight` 0 is not above 0");
        check("preset: safe_action", "`preset` `safe_action` is unknown (did you mean");
    }

    #[test]
    fn every_preset_is_a_rubric() {
        for name in presets::names() {
            check(&format!("preset: {name}"), "built");
        }
    }
}
