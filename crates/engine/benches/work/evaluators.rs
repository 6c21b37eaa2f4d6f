//! The evaluators that are measured: each kind with settings that ask much of it.

use std::fmt::Write;

use spanscore_engine::settings::evaluators::{Surroundings, configure};
use spanscore_engine::settings::{ConfigPart, load};
use spanscore_evaluate::engine::run::Configured;

use super::shapes::{argument_key, tool_name};

/// Calls, names or results that are expected: as many as a careful person might list.
const EXPECTED: usize = 300;

/// One evaluator on one level.
pub(crate) struct Case {
    pub(crate) name: String,
    config: String,
}

impl Case {
    /// The evaluator, built anew; `None` if its settings are no valid ones.
    fn build(&self) -> Option<Vec<Configured>> {
        let part = ConfigPart::Text { name: self.name.clone(), text: self.config.clone() };
        let loaded = load(&[part], "{}", &|_| None).ok()?;
        let mut errors = Vec::new();
        let around = Surroundings { failures: None, judges: None, sources: &loaded.sources };
        let configured = configure(Some(&loaded.node), around, &mut errors);
        errors.is_empty().then_some(configured)
    }

    /// The evaluator, built anew.
    pub(crate) fn evaluators(&self) -> Vec<Configured> {
        self.build().unwrap()
    }

    /// True if it applies schemas that a trace brings.
    pub(crate) fn reads_schemas(&self) -> bool {
        self.name.starts_with("tool_call_validity")
    }

    fn is_valid(&self) -> bool {
        self.build().is_some()
    }
}

fn expected(write_one: impl Fn(&mut String, usize)) -> String {
    let mut list = String::from("[");
    for at in 0..EXPECTED {
        if at > 0 {
            list.push_str(", ");
        }
        write_one(&mut list, at);
    }
    list.push(']');
    list
}

/// Settings under the name of their kind, with a word behind `+` where a kind has several.
type Named = Vec<(&'static str, String)>;

/// Kinds that compare calls with expected ones, or with each other.
fn of_calls() -> Named {
    let (name, key) = (|at: usize| tool_name(at % 40), argument_key(0));
    let calls = |arguments: &str| {
        expected(|out, at| {
            write!(out, "{{name: {}, {arguments}: {{{key}: v{at}}}}}", name(at)).unwrap();
        })
    };
    let (args, arguments) = (calls("args"), calls("arguments"));
    let outputs =
        expected(|out, at| write!(out, "{{name: {}, output: {{ok: {at}}}}}", name(at)).unwrap());
    let names = expected(|out, at| write!(out, "{}", name(at)).unwrap());
    vec![
        ("tool_call_args", format!("criteria: {{tool_calls: {args}}}")),
        ("tool_call_args+uipath", format!("compat: uipath, criteria: {{tool_calls: {args}}}")),
        ("tool_call_count", format!("criteria: {{tool_calls_count: {{{}: ['<=', 3]}}}}", name(1))),
        ("tool_call_order", format!("criteria: {{tool_calls_order: {names}}}")),
        (
            "tool_call_order+uipath",
            format!("compat: uipath, criteria: {{tool_calls_order: {names}}}"),
        ),
        ("tool_call_output", format!("criteria: {{tool_outputs: {outputs}}}")),
        ("tool_error", String::new()),
        ("tool_efficiency", String::new()),
        ("tool_efficiency+subset", "allow_retries: true, argument_matcher: {mode: subset}".into()),
        ("tool_trajectory", format!("exclude_failed: true, criteria: {{tool_calls: {arguments}}}")),
        (
            "tool_trajectory+any",
            format!(
                "match_mode: any_order, argument_matcher: {{mode: subset}}, \
                 criteria: {{tool_calls: {arguments}}}"
            ),
        ),
        (
            "tool_correctness+args",
            format!("match_mode: names_and_args, criteria: {{tool_calls: {arguments}}}"),
        ),
        (
            "tool_correctness+best",
            format!("match_mode: best_match, criteria: {{tool_calls: {arguments}}}"),
        ),
        (
            "tool_correctness+order",
            format!("match_mode: names_and_order, criteria: {{tool_calls: {arguments}}}"),
        ),
    ]
}

/// Kinds that look at definitions, rules, the course of a run, or texts.
fn of_the_rest() -> Named {
    let (name, key) = (|at: usize| tool_name(at % 40), argument_key(0));
    let object: Vec<_> = (0..EXPECTED).map(|at| format!("k{at}: {{a: [{at}, x]}}")).collect();
    let object = object.join(", ");
    let before: Vec<_> =
        (0..EXPECTED).map(|at| format!("{}: [{}]", tool_name(at), tool_name(at + 1))).collect();
    let before = before.join(", ");
    vec![
        ("tool_call_validity", String::new()),
        ("tool_call_validity+full", "schema: full".into()),
        ("tool_name_reliability", String::new()),
        ("tool_description_reliability", String::new()),
        (
            "argument_correctness",
            format!("tool_name: {}, expected_arguments: {{{key}: v1}}", name(1)),
        ),
        ("argument_grounding", String::new()),
        ("tool_policy", format!("declared_only: true, required_before: {{{before}}}")),
        ("tool_loop", "max_pattern: 16".into()),
        ("tool_recovery", String::new()),
        ("tool_budget", "max_calls: 20, max_latency: 5s, exclude_failed: true".into()),
        ("output_rules", "bundle: all".into()),
        ("output_rules+results", "bundle: all, target: tool_results".into()),
        ("output_rules+arguments", "bundle: all, target: tool_arguments".into()),
        ("exact_match", format!("criteria: {{expected_output: {{{object}}}}}")),
        ("contains", "criteria: {search_text: zzz}".into()),
        ("classification", "classes: [good, bad], criteria: {expected_class: bad}".into()),
        ("json_similarity", format!("criteria: {{expected_output: {{{object}}}}}")),
        ("word_overlap", format!("criteria: {{expected_output: \"{}\"}}", "abc ".repeat(200))),
        (
            "json_similarity+text",
            format!("criteria: {{expected_output: \"{}\"}}", "abc ".repeat(200)),
        ),
        ("tool_error+when", "when: 'tool_names.all(a, tool_names.exists(b, b == a))'".into()),
    ]
}

/// Every kind on every level that takes it.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, settings) in of_calls().into_iter().chain(of_the_rest()) {
        let kind = name.split('+').next().unwrap_or(name);
        for level in ["trace", "call"] {
            let comma = if settings.is_empty() { "" } else { ", " };
            let config = format!("{{{kind}: {{level: {level}{comma}{settings}}}}}");
            let case = Case { name: format!("{name} {level}"), config };
            // On calls alone not every kind can say something.
            if level == "trace" || case.is_valid() {
                cases.push(case);
            }
        }
    }
    cases
}
