//! Comparison of two sides, such as versions or periods: intervals of differences, and verdicts.
//! Shared by the API and the command line, for a store and for files.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use spanscore_base::statistics::{MeanDifference, Moments, Share, ShareDifference, discoveries};

use super::field::StoreField;
use super::figures::{CaseFigures, ToolFigures};
use super::filter::StoreFilter;
use super::group::{GroupFigures, IntervalDifference};
use super::list::StoredGroup;
use super::{StoreQueryError, StoreReader};

/// Fewest passes and fails, or calls, of a side that count as evidence.
const COUNT_MIN: f64 = 30.0;
/// Largest false discovery rate of the rows called better or worse.
const FALSE_SHARE: f64 = 0.05;
/// Limit on listed new failures.
const NEW_FAILURES_MAX: usize = 100;

/// Figures of one side of a comparison.
#[derive(Clone, Debug, Default)]
pub struct ComparedSide {
    /// Figures by evaluator and level.
    pub evaluators: Vec<StoredGroup>,
    /// Evaluators with their judging versions.
    pub versions: BTreeSet<(String, String)>,
    /// Figures by tool.
    pub tools: Vec<ToolFigures>,
    /// Figures by case and evaluator.
    pub cases: Vec<CaseFigures>,
}

/// Comparison of two sides, old and new.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SideComparison {
    /// Evaluators of either side.
    pub evaluators: Vec<EvaluatorComparison>,
    /// Tools of either side.
    pub tools: Vec<ToolComparison>,
    /// Cases that only passed on side a and fail on side b, the first [`NEW_FAILURES_MAX`].
    pub new_failures: Vec<NewFailure>,
}

/// Evaluator on both sides.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluatorComparison {
    /// Full name of the evaluator.
    pub evaluator: String,
    /// `call`, `trace` or `session`.
    pub level: String,
    /// Figures of side a.
    pub a: GroupFigures,
    /// Figures of side b.
    pub b: GroupFigures,
    /// True if the sides were judged with different settings.
    pub definitions_differ: bool,
    /// Difference of the pass rates, with Newcombe's interval.
    pub pass_rate_difference: Option<IntervalDifference>,
    /// Difference of the means, with Welch's interval.
    pub mean_difference: Option<IntervalDifference>,
    /// `better`, `worse`, `no_evidence` or `too_few`.
    pub verdict: &'static str,
    /// Cases of both sides.
    pub cases: CaseCounts,
}

/// Counts of cases of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CaseCounts {
    /// All.
    pub compared: i64,
    /// Those that only passed on side a and fail on side b.
    pub newly_failing: i64,
    /// Those that failed on side a and only pass on side b.
    pub newly_passing: i64,
}

/// Tool on one side.
#[derive(Clone, Debug, Serialize)]
pub struct ToolSide {
    /// Calls.
    pub calls: i64,
    /// Failed calls.
    pub errors: i64,
    /// Share of failed calls.
    pub error_rate: Option<f64>,
}

/// Tool on both sides.
#[derive(Clone, Debug, Serialize)]
pub struct ToolComparison {
    /// Tool.
    pub tool: String,
    /// Figures of side a.
    pub a: ToolSide,
    /// Figures of side b.
    pub b: ToolSide,
    /// Difference of the error rates, with Newcombe's interval.
    pub error_rate_difference: Option<IntervalDifference>,
    /// Verdict as for an evaluator.
    pub verdict: &'static str,
}

/// Case that only passed on side a and fails on side b.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewFailure {
    /// Case.
    pub case: String,
    /// Full name of the evaluator.
    pub evaluator: String,
    /// Passes of side a.
    pub passed_before: i64,
    /// Fails of side b.
    pub failed_now: i64,
    /// Newest failing run of side b.
    pub trace_id: Option<String>,
}

impl ComparedSide {
    /// Reads a side from a store.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn read(reader: &StoreReader, filter: &StoreFilter) -> Result<Self, StoreQueryError> {
        let by_version = [StoreField::Evaluator, StoreField::EvaluatorVersion];
        let versions = reader.groups(filter, &by_version)?;
        let versions = versions.into_iter().filter_map(|group| group.keys.try_into().ok());
        Ok(Self {
            evaluators: reader.groups(filter, &[StoreField::Evaluator, StoreField::Level])?,
            versions: versions.map(|[name, version]: [String; 2]| (name, version)).collect(),
            tools: reader.tools(filter)?,
            cases: reader.cases(filter)?,
        })
    }

    fn versions_of(&self, evaluator: &str) -> impl Iterator<Item = &str> {
        let own = self.versions.iter().filter(move |(name, _)| name == evaluator);
        own.map(|(_, version)| version.as_str())
    }
}

impl SideComparison {
    /// Compares two sides, old and new.
    pub fn of(a: &ComparedSide, b: &ComparedSide) -> Self {
        let evaluators = paired(&a.evaluators, &b.evaluators, |it| &it.keys[..]);
        let tools = paired(&a.tools, &b.tools, |it| std::slice::from_ref(&it.tool));
        let rows: Vec<_> = (evaluators.values().map(|pair| ShareRow::of_passes(*pair)))
            .chain(tools.values().map(|pair| ShareRow::of_errors(*pair)))
            .collect();
        let words = verdicts(&rows);
        let (of_evaluators, of_tools) = words.split_at(evaluators.len());
        let cases = CaseComparison::of(&a.cases, &b.cases);
        let evaluators = evaluators.into_iter().zip(rows.iter().zip(of_evaluators));
        let evaluators = evaluators.map(|((keys, pair), (row, verdict))| {
            let mut compared = EvaluatorComparison::of(keys, pair, row, verdict);
            let name = compared.evaluator.as_str();
            let is_both = pair.0.is_some() && pair.1.is_some();
            compared.definitions_differ = is_both && !a.versions_of(name).eq(b.versions_of(name));
            compared.cases = cases.counts.get(name).copied().unwrap_or_default();
            compared
        });
        let evaluators: Vec<_> = evaluators.collect();
        let tools = tools.into_values().zip(rows[evaluators.len()..].iter().zip(of_tools));
        let tools = tools.map(|(pair, (row, verdict))| ToolComparison::of(pair, row, verdict));
        Self { tools: tools.collect(), evaluators, new_failures: cases.new_failures }
    }

    /// Reads two sides from a store, and compares them.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn read(
        reader: &StoreReader,
        a: &StoreFilter,
        b: &StoreFilter,
    ) -> Result<Self, StoreQueryError> {
        Ok(Self::of(&ComparedSide::read(reader, a)?, &ComparedSide::read(reader, b)?))
    }
}

impl EvaluatorComparison {
    fn of(
        keys: &[String],
        (a, b): Pair<'_, StoredGroup>,
        row: &ShareRow,
        verdict: &'static str,
    ) -> Self {
        let means = MeanDifference::welch(moments(a), moments(b));
        let has_scores = row.a.count > 0.0 && row.b.count > 0.0;
        let key = |at: usize| keys.get(at).cloned().unwrap_or_default();
        Self {
            evaluator: key(0),
            level: key(1),
            a: a.map(GroupFigures::new).unwrap_or_default(),
            b: b.map(GroupFigures::new).unwrap_or_default(),
            definitions_differ: false,
            pass_rate_difference: row.a.difference(&row.b).map(IntervalDifference::from),
            mean_difference: has_scores
                .then_some(IntervalDifference { value: means.mean, interval: means.interval }),
            verdict,
            cases: CaseCounts::default(),
        }
    }
}

impl ToolComparison {
    fn of((a, b): Pair<'_, ToolFigures>, row: &ShareRow, verdict: &'static str) -> Self {
        let side = |it: Option<&ToolFigures>, share: &Share| ToolSide {
            calls: it.map_or(0, |it| it.calls),
            errors: it.map_or(0, |it| it.errors),
            error_rate: share.rate(),
        };
        Self {
            tool: a.or(b).map(|it| it.tool.clone()).unwrap_or_default(),
            a: side(a, &row.a),
            b: side(b, &row.b),
            error_rate_difference: row.a.difference(&row.b).map(IntervalDifference::from),
            verdict,
        }
    }
}

/// Matching items of both sides, if present.
type Pair<'s, T> = (Option<&'s T>, Option<&'s T>);

/// Pairs the items of both sides by key.
fn paired<'s, T>(
    a: &'s [T],
    b: &'s [T],
    key: impl Fn(&'s T) -> &'s [String],
) -> BTreeMap<&'s [String], Pair<'s, T>> {
    let mut pairs: BTreeMap<_, Pair<'s, T>> = BTreeMap::new();
    for it in a {
        pairs.entry(key(it)).or_default().0 = Some(it);
    }
    for it in b {
        pairs.entry(key(it)).or_default().1 = Some(it);
    }
    pairs
}

/// Shares of both sides.
#[derive(Clone, Copy, Debug)]
struct ShareRow {
    a: Share,
    b: Share,
    /// 1 if more is better, else -1.
    sign: f64,
}

impl ShareRow {
    fn of_passes((a, b): Pair<'_, StoredGroup>) -> Self {
        let share = |it: Option<&StoredGroup>| {
            it.map_or_else(Share::default, |it| Share::new(it.passed, it.passed + it.failed))
        };
        Self { a: share(a), b: share(b), sign: 1.0 }
    }

    fn of_errors((a, b): Pair<'_, ToolFigures>) -> Self {
        let share = |it: Option<&ToolFigures>| {
            it.map_or_else(Share::default, |it| Share::new(it.errors, it.calls))
        };
        Self { a: share(a), b: share(b), sign: -1.0 }
    }

    /// Returns the difference, if there is enough evidence.
    fn difference(&self) -> Option<ShareDifference> {
        let is_enough = self.a.count >= COUNT_MIN && self.b.count >= COUNT_MIN;
        self.a.difference(&self.b).filter(|_| is_enough)
    }
}

/// Returns the verdict of each row's difference, with a common false discovery rate.
fn verdicts(rows: &[ShareRow]) -> Vec<&'static str> {
    let differences: Vec<ShareDifference> = rows.iter().filter_map(ShareRow::difference).collect();
    let p_values: Vec<f64> = differences.iter().map(ShareDifference::p_value).collect();
    let mut found = discoveries(&p_values, FALSE_SHARE).into_iter();
    let word = |row: &ShareRow| {
        let difference = row.difference();
        match difference.and_then(|it| Some((it, found.next()?))) {
            None => "too_few",
            Some((_, false)) => "no_evidence",
            Some((difference, true)) if difference.value * row.sign > 0.0 => "better",
            Some((_, true)) => "worse",
        }
    };
    rows.iter().map(word).collect()
}

fn moments(group: Option<&StoredGroup>) -> Moments {
    let Some(group) = group else { return Moments::default() };
    let count = (group.passed + group.failed) as f64;
    Moments::of_sums(count, group.mean.unwrap_or(0.0) * count, group.squares)
}

/// Comparison case by case.
#[derive(Default)]
struct CaseComparison<'s> {
    /// Counts by evaluator.
    counts: BTreeMap<&'s str, CaseCounts>,
    new_failures: Vec<NewFailure>,
}

impl<'s> CaseComparison<'s> {
    fn of(a: &'s [CaseFigures], b: &'s [CaseFigures]) -> Self {
        let mut all = Self::default();
        let mut before = BTreeMap::new();
        for it in a {
            before.insert((it.case.as_str(), it.evaluator.as_str()), it);
        }
        for now in b {
            let before = before.get(&(now.case.as_str(), now.evaluator.as_str()));
            if let Some(before) = before {
                all.add(before, now);
            }
        }
        all
    }

    fn add(&mut self, before: &CaseFigures, now: &'s CaseFigures) {
        let passes = |it: &CaseFigures| it.failed == 0 && it.passed > 0;
        let counts = self.counts.entry(now.evaluator.as_str()).or_default();
        counts.compared += 1;
        counts.newly_passing += i64::from(before.failed > 0 && passes(now));
        if !passes(before) || now.failed == 0 {
            return;
        }
        counts.newly_failing += 1;
        if self.new_failures.len() < NEW_FAILURES_MAX {
            self.new_failures.push(NewFailure {
                case: now.case.clone(),
                evaluator: now.evaluator.clone(),
                passed_before: before.passed,
                failed_now: now.failed,
                trace_id: now.failed_trace.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(rows: &[(Share, Share)], sign: f64) -> Vec<&'static str> {
        let rows: Vec<_> = rows.iter().map(|&(a, b)| ShareRow { a, b, sign }).collect();
        verdicts(&rows)
    }

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
                words(&[row], 1.0) == [word]
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
        let expected = ["too_few", "worse", "worse", "too_few", "better", "no_evidence"];
        assert_eq!(words(&rows, 1.0), expected);
        let expected = ["too_few", "better", "better", "too_few", "worse", "no_evidence"];
        assert_eq!(words(&rows, -1.0), expected);
    }

    /// One difference alone would be evidence; among twenty without any it is not.
    #[test]
    fn many_rows_are_held_to_a_common_share_of_chance() {
        let doubtful = (Share::new(920, 1_000), Share::new(893, 1_000));
        assert_eq!(words(&[doubtful], 1.0), ["worse"]);
        let equal = (Share::new(900, 1_000), Share::new(901, 1_000));
        let rows: Vec<_> = [doubtful].into_iter().chain([equal; 19]).collect();
        assert_eq!(words(&rows, 1.0)[0], "no_evidence");
    }

    fn side(fails: std::ops::Range<usize>) -> ComparedSide {
        let case = |at: usize| CaseFigures {
            case: format!("case {at:02}"),
            evaluator: "e".to_owned(),
            passed: i64::from(!fails.contains(&at)),
            failed: i64::from(fails.contains(&at)),
            failed_trace: fails.contains(&at).then(|| format!("t{at}")),
        };
        let group = StoredGroup {
            keys: vec!["e".to_owned(), "trace".to_owned()],
            passed: 12 - fails.len() as i64,
            failed: fails.len() as i64,
            ..StoredGroup::default()
        };
        let cases = (0..12).map(case).collect();
        ComparedSide { evaluators: vec![group], cases, ..ComparedSide::default() }
    }

    #[test]
    fn new_fails_of_a_small_suite_are_named_where_shares_show_nothing() {
        let compared = SideComparison::of(&side(11..12), &side(3..8));
        let failing: Vec<_> = compared.new_failures.iter().map(|it| it.case.as_str()).collect();
        assert_eq!(failing, ["case 03", "case 04", "case 05", "case 06", "case 07"]);
        assert_eq!(compared.new_failures[0].trace_id.as_deref(), Some("t3"));
        let [row] = &compared.evaluators[..] else { panic!("one") };
        let counts = CaseCounts { compared: 12, newly_failing: 5, newly_passing: 1 };
        assert_eq!((row.verdict, row.cases), ("too_few", counts));
    }
}
