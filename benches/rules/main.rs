//! Precision and speed of the rules on texts that nobody wrote for them.
//!
//! `cargo bench --bench rules -- sets` reads the sets of `tests/fixtures/rules` and prints what is
//! found by class, `-- sets unseen_` of one generation; `-- corpus DIR` reads what
//! `tests/load/corpus.py` gathered and prints the time beside the findings by kind and language.
//! `--list` prints each text that went wrong, or each finding, as a JSON object a line.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "it prints, and stops if it cannot")]

mod corpus;
mod sets;
#[path = "../../tests/it/support/rule_sets.rs"]
mod texts;

use std::sync::Arc;

use spanscore_base::model::{Content, Outcome, Resource, Score, Trajectory, WorkBudget};
use spanscore_base::settings::Node;
use spanscore_base::value::Value;
use spanscore_base::value::json;
use spanscore_evaluate::kinds::outputs::output_rules;
use spanscore_evaluate::{Evaluator, Want};

/// One finding as the details tell it.
pub(crate) struct Seen {
    rule: String,
    kind: String,
    start: usize,
    end: usize,
}

fn evaluator(settings: &str) -> Evaluator {
    let node = Node::from_value(&json::parse(settings).expect("settings are JSON"));
    (output_rules::KIND.build)(&node).expect("settings are valid")
}

fn trajectory(output: &str, input: Option<&str>) -> Trajectory<'static> {
    Trajectory {
        final_output: Content::ready(output.to_owned().into()),
        user_input: input
            .map_or_else(Content::default, |input| Content::ready(input.to_owned().into())),
        resource: Arc::new(Resource::default()),
        effort: WorkBudget::new(u64::MAX),
        ..Trajectory::default()
    }
}

fn scored(evaluator: &Evaluator, trajectory: &Trajectory<'_>, want: Want) -> Option<Score> {
    trajectory.effort.begin(0);
    match evaluator.as_code()?.evaluate(trajectory, want) {
        Outcome::Scored(score) => Some(score),
        Outcome::NotEvaluable { .. } | Outcome::Failed { .. } => None,
    }
}

fn findings(score: &Score) -> Vec<Seen> {
    let Value::Map(details) = &score.details else { return Vec::new() };
    let list = details.get("findings").and_then(Value::as_list).unwrap_or_default();
    let text = |finding: &Value<'_>, key: &str| {
        finding.as_map().and_then(|map| map.get(key)?.as_str()).unwrap_or_default().to_owned()
    };
    let place = |finding: &Value<'_>, key: &str| {
        finding.as_map().and_then(|map| map.get(key)?.as_number()?.as_i64()).unwrap_or_default()
            as usize
    };
    list.iter()
        .map(|finding| Seen {
            rule: text(finding, "rule"),
            kind: text(finding, "kind"),
            start: place(finding, "start"),
            end: place(finding, "end"),
        })
        .collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let list = arguments.iter().any(|argument| argument == "--list");
    let words: Vec<&str> =
        arguments.iter().map(|word| &**word).filter(|word| !word.starts_with("--")).collect();
    match words[..] {
        ["corpus", folder, ..] => corpus::print(folder, list),
        ["sets"] | [] => sets::print(None, list),
        ["sets", written] => sets::print(Some(written), list),
        _ => println!("`sets`, `sets PREFIX` or `corpus DIR` is needed, and maybe `--list`"),
    }
}
