//! Comparison of two versions, or two times: intervals of differences, and verdicts in words.

use std::collections::BTreeMap;

use serde::Serialize;

use spanscore_base::statistics::{MeanDifference, Moments, Share, ShareDifference, discoveries};
use spanscore_store::query::{
    CaseFigures, StoreField, StoreFilter, StoreLosses, StoredGroup, ToolFigures,
};

use super::figures::{Figures, Interval};
use super::{RouteQuery, filtered};
use crate::problem::ApiProblem;
use crate::question::{ApiQuery, pairs};
use crate::readers::answer;

/// Fewest passes and fails, or calls, of a side that can be evidence.
const COUNT_MIN: f64 = 30.0;
/// Share of rows that are called better or worse by chance, at most.
const FALSE_SHARE: f64 = 0.05;
/// Most new failures that are named.
const NEW_FAILURES_MAX: usize = 100;

#[derive(Serialize)]
struct CompareAnswer<'a> {
    a: &'a str,
    b: &'a str,
    evaluators: Vec<EvaluatorComparison>,
    tools: Vec<ToolComparison>,
    new_failures: Vec<NewFailure>,
    losses: StoreLosses,
}

#[derive(Serialize)]
struct IntervalDifference {
    value: f64,
    interval: Interval,
}

#[derive(Serialize)]
struct EvaluatorComparison {
    evaluator: String,
    level: String,
    a: Figures,
    b: Figures,
    definitions_differ: bool,
    pass_rate_difference: Option<IntervalDifference>,
    mean_difference: Option<IntervalDifference>,
    verdict: &'static str,
}

#[derive(Serialize)]
struct ToolSide {
    calls: i64,
    errors: i64,
    error_rate: Option<f64>,
}

#[derive(Serialize)]
struct ToolComparison {
    tool: String,
    a: ToolSide,
    b: ToolSide,
    error_rate_difference: Option<IntervalDifference>,
    verdict: &'static str,
}

#[derive(Serialize)]
struct NewFailure {
    case: String,
    evaluator: String,
    passed_before: i64,
    failed_now: i64,
    trace_id: Option<String>,
}

impl From<ShareDifference> for IntervalDifference {
    fn from(it: ShareDifference) -> Self {
        Self { value: it.value, interval: Some(it.interval) }
    }
}

pub(super) fn compare(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let question = asking.question;
    let a = side(question, "a")?;
    let b = side(question, "b")?;
    answer(&CompareAnswer {
        a: question.other("a").unwrap_or_default(),
        b: question.other("b").unwrap_or_default(),
        evaluators: evaluators(asking, &a, &b)?,
        tools: tools(asking, &a, &b)?,
        new_failures: new_failures(asking, &a, &b)?,
        losses: asking.reader.losses()?,
    })
}

/// Reads the filter of a side: that of the request, with the parameters of the side in place of
/// those with the same names.
fn side(question: &ApiQuery, name: &str) -> Result<StoreFilter, ApiProblem> {
    let Some(text) = question.other(name) else {
        let detail = format!("`{name}` is missing: the filter of a side, such as `version=1.4.0`");
        return Err(ApiProblem::value(name, detail));
    };
    let own = pairs(text);
    let shared =
        question.filter_pairs.iter().filter(|(it, _)| own.iter().all(|(own, _)| own != it));
    let all: Vec<_> = shared.chain(&own).cloned().collect();
    Ok(ApiQuery::of_pairs(&all, filtered(&[], 0), question.now_ms)?.filter)
}

/// Pairs what both sides have under one key.
fn paired<T>(
    a: Vec<T>,
    b: Vec<T>,
    key: impl Fn(&T) -> Vec<String>,
) -> BTreeMap<Vec<String>, (Option<T>, Option<T>)> {
    let mut pairs = BTreeMap::new();
    for it in a {
        pairs.insert(key(&it), (Some(it), None));
    }
    for it in b {
        let key = key(&it);
        pairs.entry(key).or_insert((None, None)).1 = Some(it);
    }
    pairs
}

/// Tells in words of each row what its difference says. `sign` is 1 where more is better.
fn verdicts(rows: &[(Share, Share)], sign: f64) -> Vec<&'static str> {
    let is_enough = |(a, b): &(Share, Share)| a.count >= COUNT_MIN && b.count >= COUNT_MIN;
    let differences = rows.iter().filter(|row| is_enough(row)).map(|(a, b)| a.difference(b));
    let differences: Vec<ShareDifference> = differences.flatten().collect();
    let p_values: Vec<f64> = differences.iter().map(ShareDifference::p_value).collect();
    let found = discoveries(&p_values, FALSE_SHARE);
    let mut judged = differences.iter().zip(found);
    let word = |row| match is_enough(row).then(|| judged.next()).flatten() {
        None => "too_few",
        Some((_, false)) => "no_evidence",
        Some((difference, true)) if difference.value * sign > 0.0 => "better",
        Some((_, true)) => "worse",
    };
    rows.iter().map(word).collect()
}

fn passes(group: Option<&StoredGroup>) -> Share {
    group.map_or_else(Share::default, |it| Share::new(it.passed, it.passed + it.failed))
}

fn moments(group: Option<&StoredGroup>) -> Moments {
    let Some(group) = group else { return Moments::default() };
    let count = (group.passed + group.failed) as f64;
    Moments::of_sums(count, group.mean.unwrap_or(0.0) * count, group.squares)
}

fn evaluators(
    asking: &RouteQuery<'_>,
    a: &StoreFilter,
    b: &StoreFilter,
) -> Result<Vec<EvaluatorComparison>, ApiProblem> {
    let by = [StoreField::Evaluator, StoreField::Level];
    let figures = |filter| asking.reader.groups(filter, &by);
    let pairs = paired(figures(a)?, figures(b)?, |group| group.keys.clone());
    let versions = |filter| -> Result<BTreeMap<String, Vec<String>>, ApiProblem> {
        let by = [StoreField::Evaluator, StoreField::EvaluatorVersion];
        let mut versions: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for group in asking.reader.groups(filter, &by)? {
            versions.entry(group.keys[0].clone()).or_default().push(group.keys[1].clone());
        }
        Ok(versions)
    };
    let old_versions = versions(a)?;
    let new_versions = versions(b)?;
    let shares: Vec<_> =
        pairs.values().map(|(a, b)| (passes(a.as_ref()), passes(b.as_ref()))).collect();
    let words = verdicts(&shares, 1.0);
    let rows = pairs.iter().zip(shares.iter().zip(words));
    let rows = rows.map(|((keys, (a, b)), (shares, verdict))| {
        let evaluator = keys[0].clone();
        let old = old_versions.get(&evaluator);
        let new = new_versions.get(&evaluator);
        let is_both = a.is_some() && b.is_some();
        let means = MeanDifference::welch(moments(a.as_ref()), moments(b.as_ref()));
        let has_scores = shares.0.count > 0.0 && shares.1.count > 0.0;
        EvaluatorComparison {
            level: keys[1].clone(),
            a: a.as_ref().map(Figures::new).unwrap_or_default(),
            b: b.as_ref().map(Figures::new).unwrap_or_default(),
            definitions_differ: is_both && old != new,
            pass_rate_difference: shares.0.difference(&shares.1).map(IntervalDifference::from),
            mean_difference: has_scores
                .then_some(IntervalDifference { value: means.mean, interval: means.interval }),
            verdict,
            evaluator,
        }
    });
    Ok(rows.collect())
}

fn tools(
    asking: &RouteQuery<'_>,
    a: &StoreFilter,
    b: &StoreFilter,
) -> Result<Vec<ToolComparison>, ApiProblem> {
    let key = |it: &ToolFigures| vec![it.tool.clone()];
    let pairs = paired(asking.reader.tools(a)?, asking.reader.tools(b)?, key);
    let errors = |it: &Option<ToolFigures>| {
        it.as_ref().map_or_else(Share::default, |it| Share::new(it.errors, it.calls))
    };
    let shares: Vec<_> = pairs.values().map(|(a, b)| (errors(a), errors(b))).collect();
    let words = verdicts(&shares, -1.0);
    let side = |it: &Option<ToolFigures>| ToolSide {
        calls: it.as_ref().map_or(0, |it| it.calls),
        errors: it.as_ref().map_or(0, |it| it.errors),
        error_rate: errors(it).rate(),
    };
    let rows = pairs.iter().zip(shares.iter().zip(words));
    let rows = rows.map(|((keys, (a, b)), (shares, verdict))| ToolComparison {
        tool: keys[0].clone(),
        a: side(a),
        b: side(b),
        error_rate_difference: shares.0.difference(&shares.1).map(IntervalDifference::from),
        verdict,
    });
    Ok(rows.collect())
}

/// Names the cases that only passed on side a and fail on side b.
fn new_failures(
    asking: &RouteQuery<'_>,
    a: &StoreFilter,
    b: &StoreFilter,
) -> Result<Vec<NewFailure>, ApiProblem> {
    let key = |it: &CaseFigures| vec![it.case.clone(), it.evaluator.clone()];
    let pairs = paired(asking.reader.cases(a)?, asking.reader.cases(b)?, key);
    let pairs = pairs.into_values().filter_map(|(a, b)| Some((a?, b?)));
    let new = pairs.filter(|(a, b)| a.failed == 0 && a.passed > 0 && b.failed > 0);
    let mut failures = Vec::new();
    for (before, now) in new.take(NEW_FAILURES_MAX) {
        let mut failing = b.clone();
        failing.add(StoreField::Evaluator, now.evaluator.as_str());
        failing.add(StoreField::Case, now.case.as_str());
        failing.add(StoreField::Label, "fail");
        let found = asking.reader.evaluation_page(&failing, None, 1)?;
        failures.push(NewFailure {
            trace_id: found.items.into_iter().next().map(|it| it.trace_id),
            case: now.case,
            evaluator: now.evaluator,
            passed_before: before.passed,
            failed_now: now.failed,
        });
    }
    Ok(failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws passes of 1,000 runs.
    fn passes_of(rate: f64, state: &mut u64) -> Share {
        let mut passes = 0;
        for _ in 0..1_000 {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            let chance = (*state >> 11) as f64 / (1_u64 << 53) as f64;
            passes += i64::from(chance < rate);
        }
        Share::new(passes, 1_000)
    }

    #[test]
    fn a_fall_from_92_to_87_percent_is_found_and_equal_ones_are_seldom_told_apart() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let mut counted = |old: f64, new: f64, word: &str| {
            let seeds = (0..1_000).filter(|_| {
                let row = (passes_of(old, &mut state), passes_of(new, &mut state));
                verdicts(&[row], 1.0) == [word]
            });
            seeds.count()
        };
        let found = counted(0.92, 0.87, "worse");
        assert!(found >= 930, "{found}");
        let apart = 1_000 - counted(0.9, 0.9, "no_evidence");
        assert!(apart <= 60, "{apart}");
    }

    #[test]
    fn rows_have_their_own_verdicts() {
        let share = |hits, count| Share::new(hits, count);
        let rows = [
            (share(29, 29), share(0, 1_000)),
            (share(900, 1_000), share(500, 1_000)),
            (share(30, 30), share(0, 30)),
            (share(0, 0), share(5, 9)),
            (share(500, 1_000), share(900, 1_000)),
            (share(15, 30), share(15, 30)),
        ];
        let words = ["too_few", "worse", "worse", "too_few", "better", "no_evidence"];
        assert_eq!(verdicts(&rows, 1.0), words);
        let words = ["too_few", "better", "better", "too_few", "worse", "no_evidence"];
        assert_eq!(verdicts(&rows, -1.0), words);
    }

    /// One difference alone would be evidence; among twenty without any it is not.
    #[test]
    fn many_rows_are_held_to_a_common_share_of_chance() {
        let doubtful = (Share::new(920, 1_000), Share::new(893, 1_000));
        assert_eq!(verdicts(&[doubtful], 1.0), ["worse"]);
        let equal = (Share::new(900, 1_000), Share::new(901, 1_000));
        let rows: Vec<_> = [doubtful].into_iter().chain([equal; 19]).collect();
        assert_eq!(verdicts(&rows, 1.0)[0], "no_evidence");
    }
}
