//! `tool_correctness`: tools called compared with expected ones, with partial credit.
//!
//! While [`tool_trajectory`](super::tool_trajectory) counts equal calls, this kind weighs tools,
//! order and arguments as each source does. In ordered modes, parallel calls take the order that
//! scores best; in first-match modes, a group takes the first expected calls.

mod accuracy;
mod graded;
mod python;
mod ruled;
mod settings;

use std::ops::Range;
use std::sync::LazyLock;

use self::settings::{
    CorrectnessCompat, CorrectnessMatchMode, EvaluationParam, ORDERED_MODES, Settings,
};
use crate::evaluator::{CodeEvaluator, Evaluator, Kind};
use crate::shared::arguments::{ArgumentMatcher, ArgumentMode};
use crate::shared::difference::{CountedDifferences, Difference};
use crate::shared::expected_calls::{
    self, CallMatcher, Comparison, Criteria, ExpectedCall, arguments_of,
};
use crate::shared::failure::FailureRules;
use crate::shared::order::{self, CallGroup, InOrder};
use crate::shared::within_group::WithinGroup;
use crate::shared::{report, turns};
use spanscore_base::model::{
    Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want, WorkBudget,
};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::tally::distinct;
use spanscore_base::value::{Map, Value};

/// Registry entry of `tool_correctness`.
pub static KIND: Kind = Kind {
    name: "tool_correctness",
    about: "Compares the tools used with the expected ones, with partial credit for tools, order \
            or arguments.",
    also_known_as: &[
        ("ToolCorrectnessEvaluator", "Dokimos"),
        ("ToolCorrectnessMetric", "DeepEval"),
        ("ToolCallAccuracy", "Ragas"),
        ("ToolCallF1", "Ragas"),
        ("tool_parameter_match", "Agent Development Kit"),
    ],
    needs_criteria: true,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
tool_correctness/booking:
  match_mode: names_and_args
  threshold: 0.8
  argument_matcher:
    case_insensitive: true
  criteria:
    tool_calls:
      - name: search_flights
        arguments: {origin: JFK, destination: CDG}
      - name: book_hotel
        arguments: {city: Paris}
",
    ..Kind::PLAIN
};

struct ToolCorrectness {
    mode: CorrectnessMatchMode,
    matcher: CallMatcher,
    compares_output: bool,
    compares_arguments: bool,
    strict_mode: bool,
    strict_order: bool,
    /// True if `call_accuracy` compares arguments as Python prints them.
    prints: bool,
    within_group: WithinGroup,
    exclude_failed: Option<FailureRules>,
    criteria: Criteria,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    use CorrectnessMatchMode::{BestMatch, BestMatchInOrder, NamesAndOrder, NamesOnly};
    let settings: Settings = node.read()?;
    let mode = settings.match_mode;
    let is_compat = settings.compat.is_some();
    let is_ragas = settings.compat == Some(CorrectnessCompat::Ragas);
    if is_ragas && mode != CorrectnessMatchMode::CallAccuracy {
        return Err(SettingsError::new(
            "`compat: ragas` goes only with `match_mode: call_accuracy`",
        ));
    }
    if is_ragas {
        settings.refuse_rules(node)?;
    }
    settings.within_group.check(settings.asks_for_order(), ORDERED_MODES, node)?;
    let params = &settings.evaluation_params;
    let compares_arguments = match mode {
        NamesOnly | NamesAndOrder => false,
        BestMatch | BestMatchInOrder => params.contains(&EvaluationParam::InputParameters),
        _ => {
            let mut by_name = settings.argument_matchers.values();
            settings.argument_matcher.reads_arguments()
                || by_name.any(ArgumentMatcher::reads_arguments)
        }
    };
    let matcher = CallMatcher {
        default: settings.argument_matcher,
        by_name: settings.argument_matchers,
        absent_is_empty: (is_compat && !is_ragas) || !compares_arguments,
        is_listed: is_compat,
    };
    let criteria = expected_calls::required(settings.criteria, node)?;
    if !criteria.steps.is_empty() {
        let help = "use `tool_trajectory`, or list `tool_calls`";
        return Err(SettingsError::new("`steps` goes only with `tool_trajectory`").with_help(help));
    }
    Ok(Evaluator::code(ToolCorrectness {
        mode,
        compares_output: matches!(mode, BestMatch | BestMatchInOrder)
            && params.contains(&EvaluationParam::Output),
        compares_arguments,
        strict_mode: settings.strict_mode,
        strict_order: settings.strict_order,
        prints: is_ragas,
        within_group: settings.within_group,
        exclude_failed: FailureRules::excluding(
            settings.exclude_failed, &settings.failures, is_compat,
        )?,
        criteria: criteria.compiled(&matcher, !is_compat, node)?,
        matcher,
    }))
}

/// Matcher that compares only names.
static NAMES_ALONE: LazyLock<CallMatcher> = LazyLock::new(|| {
    let default = ArgumentMatcher { mode: ArgumentMode::Ignore, ..ArgumentMatcher::default() };
    CallMatcher { default, ..CallMatcher::default() }
});

impl ToolCorrectness {
    fn score(&self, comparison: &Comparison<'_, '_>) -> Result<f64, expected_calls::TooLarge> {
        let expected = comparison.expected.len();
        let actual = comparison.actual.len();
        let value = match self.mode {
            CorrectnessMatchMode::NamesOnly => names_f1(comparison),
            CorrectnessMatchMode::NamesAndOrder => names_in_order(comparison)?,
            CorrectnessMatchMode::NamesAndArgs => {
                report::f1(first_fits(comparison)?, actual, expected)
            }
            CorrectnessMatchMode::BestMatch => self.graded().mean(comparison)?,
            CorrectnessMatchMode::BestMatchInOrder => self.graded().mean_in_order(comparison)?,
            CorrectnessMatchMode::CallAccuracy if self.prints => {
                python::accuracy(comparison, self.strict_order)
            }
            CorrectnessMatchMode::CallAccuracy => {
                accuracy::by_value(comparison, self.strict_order)?
            }
            CorrectnessMatchMode::CallF1 => call_f1(comparison)?,
            CorrectnessMatchMode::ParameterMatch => graded::parameters(comparison)?,
        };
        comparison.check()?;
        let zero = self.strict_mode
            && value < 1.0
            && matches!(
                self.mode,
                CorrectnessMatchMode::BestMatch | CorrectnessMatchMode::BestMatchInOrder
            );
        Ok(if zero { 0.0 } else { value })
    }

    /// Returns true if pairs earn partial credit, so that the order of the calls within a group
    /// matters.
    fn is_graded(&self) -> bool {
        use CorrectnessMatchMode::{BestMatch, BestMatchInOrder, CallAccuracy, ParameterMatch};
        matches!(self.mode, BestMatch | BestMatchInOrder | CallAccuracy | ParameterMatch)
    }

    fn graded(&self) -> graded::Graded {
        graded::Graded {
            arguments: self.compares_arguments,
            output: self.compares_output,
            reads_texts: !self.matcher.is_listed,
        }
    }

    fn explain(&self, comparison: &Comparison<'_, '_>, value: f64) -> Explanation {
        let names = ToolNames::of(comparison);
        let mut text = format!(
            "{} of {} expected tools used",
            names.expected.len() - names.missing.len(),
            names.expected.len()
        );
        for (label, list) in [("missing", &names.missing), ("redundant", &names.redundant)] {
            if !list.is_empty() {
                text.push_str(&format!("; {label}: {}", report::names(list.iter().copied())));
            }
        }
        let mut words = Explanation::plain(text);
        if names.missing.is_empty() && names.redundant.is_empty() && value < 1.0 {
            let differences = self.difference(comparison).words();
            if differences.is_empty() {
                words.push(", but not with the expected arguments or results");
            } else {
                words.push("; ");
                words.append(&differences);
            }
        }
        words
    }

    /// Compares actual with expected calls as the mode requires.
    fn difference<'c, 'a>(&'c self, comparison: &Comparison<'c, 'a>) -> Difference<'c, 'a> {
        use CorrectnessMatchMode::{
            BestMatch, BestMatchInOrder, CallAccuracy, CallF1, NamesAndArgs, NamesAndOrder,
            NamesOnly, ParameterMatch,
        };
        let counted = CountedDifferences {
            order: match self.mode {
                NamesAndOrder | BestMatchInOrder | ParameterMatch => true,
                CallAccuracy => self.strict_order,
                NamesOnly | NamesAndArgs | BestMatch | CallF1 => false,
            },
            missing: true,
            extra: !matches!(self.mode, BestMatch | BestMatchInOrder | ParameterMatch),
            allows_more: match self.mode {
                NamesAndArgs | CallF1 => "argument_matcher: {mode: subset}",
                _ => "",
            },
        };
        let matcher = if self.compares_arguments { &self.matcher } else { &*NAMES_ALONE };
        let Comparison { expected, actual, .. } = *comparison;
        Difference::new(matcher, expected, actual, counted, comparison.effort())
    }
}

/// Distinct names of expected, used, missing and redundant tools.
struct ToolNames<'c> {
    expected: Vec<&'c str>,
    correct: Vec<&'c str>,
    redundant: Vec<&'c str>,
    missing: Vec<&'c str>,
}

impl<'c> ToolNames<'c> {
    fn of(comparison: &Comparison<'c, '_>) -> Self {
        let expected = distinct(comparison.expected.iter().map(|call| &*call.name));
        let actual = distinct(comparison.actual.iter().map(|call| &*call.name));
        let wanted: hashbrown::HashSet<&str> = expected.iter().copied().collect();
        let used: hashbrown::HashSet<&str> = actual.iter().copied().collect();
        let (correct, redundant) = actual.into_iter().partition(|name| wanted.contains(name));
        let missing = expected.iter().copied().filter(|name| !used.contains(name)).collect();
        Self { expected, correct, redundant, missing }
    }
}

fn names_f1(comparison: &Comparison<'_, '_>) -> f64 {
    let names = ToolNames::of(comparison);
    let shared = names.correct.len();
    report::f1(shared, shared + names.redundant.len(), names.expected.len())
}

fn names_in_order(comparison: &Comparison<'_, '_>) -> Result<f64, expected_calls::TooLarge> {
    let expected = comparison.expected;
    let actual = comparison.actual;
    let longer = expected.len().max(actual.len());
    if longer == 0 {
        return Ok(1.0);
    }
    // Interning makes a table cell compare integers instead of texts.
    let mut numbers = hashbrown::HashMap::new();
    let mut number = |name| {
        let next = numbers.len();
        *numbers.entry(name).or_insert(next)
    };
    let e: Vec<usize> = expected.iter().map(|call| number(&*call.name)).collect();
    let a: Vec<usize> = actual.iter().map(|call| number(&*call.name)).collect();
    let common = InOrder {
        groups: comparison.groups_or_singles(),
        expected: e.len(),
        questions_max: order::CELLS_MAX,
        effort: comparison.effort(),
        fits: |call: usize, at: usize| a[call] == e[at],
    };
    Ok(report::ratio(common.length()?, longer))
}

/// Counts pairs of each actual call with its first unused match among the expected ones.
fn first_fits(comparison: &Comparison<'_, '_>) -> Result<usize, expected_calls::TooLarge> {
    if let Some(pairs) = comparison.pairs_by_number() {
        return Ok(pairs);
    }
    if comparison.has_rules() {
        return comparison.pairs();
    }
    let e = comparison.expected.len();
    let a = comparison.actual.len();
    expected_calls::check_questions(e, a)?;
    let mut used = vec![false; e];
    if let Some(groups) = comparison.groups() {
        let taken = groups.iter().map(|group| first_fits_of(comparison, group, &mut used));
        return taken.sum();
    }
    let fits = |&a: &usize| {
        let free = (0..e).find(|&e| !used[e] && comparison.same(e, a));
        free.map(|e| used[e] = true).is_some()
    };
    Ok((0..a).filter(fits).count())
}

/// Counts the expected calls that a group takes: the most possible, the first ones first.
fn first_fits_of(
    comparison: &Comparison<'_, '_>,
    calls: &Range<usize>,
    used: &mut [bool],
) -> Result<usize, expected_calls::TooLarge> {
    let mut group = CallGroup::new(calls.len());
    for (e, used) in used.iter_mut().enumerate() {
        let fits = |call| !*used && comparison.same(e, calls.start + call);
        if group.len() < calls.len() && group.ask(fits) && group.take() {
            *used = true;
        }
        comparison.work(group.take_steps())?;
    }
    Ok(group.len())
}

/// Returns F1 over the distinct calls of both sides, rounded to four decimals; 0 without calls.
fn call_f1(comparison: &Comparison<'_, '_>) -> Result<f64, expected_calls::TooLarge> {
    let (shared, actual, expected) = comparison.distinct()?;
    if actual == 0 && expected == 0 {
        return Ok(0.0);
    }
    let f1 = report::f1(shared, actual, expected);
    // Formatting rounds the exact double, as Python's `round` does.
    Ok(format!("{f1:.4}").parse().unwrap_or(f1))
}

impl CodeEvaluator for ToolCorrectness {
    fn facts(&self) -> Facts {
        Facts {
            arguments: self.compares_arguments,
            results: self.compares_output || self.exclude_failed.is_some(),
            ..Facts::default()
        }
    }

    fn asks_message_order(&self) -> bool {
        self.within_group == WithinGroup::MessageOrder
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        turns::judge(&self.criteria, trajectory, want, |expected, actual| {
            self.judge(expected, actual, &trajectory.effort, want)
        })
    }
}

impl ToolCorrectness {
    fn judge(
        &self,
        expected: &[ExpectedCall],
        calls: &[ToolCall<'_>],
        effort: &WorkBudget,
        want: Want,
    ) -> Outcome {
        if expected.is_empty() && self.mode == CorrectnessMatchMode::ParameterMatch {
            return report::not_evaluable(Reason::NoExpectation, want, || {
                "no call is expected, so there are no arguments to compare".to_owned()
            });
        }
        let mut actual = expected_calls::counted(calls, self.exclude_failed.as_ref(), effort);
        if let Some(obstacle) = self.matcher.obstacle(expected, &actual, want) {
            return obstacle;
        }
        if self.compares_output
            && let Some(call) = actual.iter().find(|call| !call.result.is_recorded())
        {
            return report::not_evaluable(Reason::ResultNotRecorded, want, || {
                format!("the result of `{}` is not recorded", call.name)
            });
        }
        if !self.matcher.is_listed && self.is_graded() {
            expected_calls::list_by_content(&mut actual, self.compares_output);
        }
        let comparison = Comparison::new(&self.matcher, expected, &actual, effort);
        let value = match self.score(&comparison) {
            Ok(value) => value,
            Err(error) => return expected_calls::too_large(error, want),
        };
        let details = || {
            let names = ToolNames::of(&comparison);
            let list = |names: &[&str]| report::name_list(names.iter().copied());
            Map::from([
                ("correct_tools", list(&names.correct)),
                ("redundant_tools", list(&names.redundant)),
                ("missing_tools", list(&names.missing)),
                ("actual_count", Value::from(actual.len())),
                ("expected_count", Value::from(expected.len())),
                ("diff", self.difference(&comparison).list()),
            ])
        };
        report::scored(value, want, || self.explain(&comparison, value), details)
    }
}

#[cfg(test)]
mod tests;
