//! Agreement of people with evaluators, and with each other.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use spanscore_base::statistics::agreement::{RatedPair, agreement, interval};
use spanscore_store::query::{FigureInterval, PersonLabel};

use super::RouteQuery;
use crate::problem::ApiProblem;
use crate::readers::answer;

/// Limit on subjects, newest first, for an interval: it takes a thousand draws of all.
const DRAWN_MAX: usize = 1_000;
/// Limit on listed disagreements of each evaluator.
const DISAGREEMENTS_MAX: usize = 20;
/// Limit on compared people, those with most labels.
const AUTHORS_MAX: usize = 50;
/// Limit on pairs of people, those with most common subjects.
const PAIRS_MAX: usize = 50;

#[derive(Serialize)]
struct AgreementAnswer<'a> {
    labels: usize,
    evaluators: Vec<RatedEvaluator<'a>>,
    people: Vec<RatedPerson<'a>>,
}

/// Evaluator with the labels on its evaluations.
#[derive(Serialize)]
struct RatedEvaluator<'a> {
    evaluator: &'a str,
    labels: usize,
    authors: usize,
    pass_pass: usize,
    pass_fail: usize,
    fail_pass: usize,
    fail_fail: usize,
    unjudged: usize,
    #[serde(flatten)]
    figures: RatedFigures,
    disagreements: Vec<DisagreementItem<'a>>,
}

/// Label that contradicts a verdict.
#[derive(Serialize)]
struct DisagreementItem<'a> {
    trace_id: &'a str,
    evaluation_id: Option<&'a str>,
    author: &'a str,
    label: &'static str,
    verdict: &'static str,
}

/// Comparison of two people.
#[derive(Serialize)]
struct RatedPerson<'a> {
    a: &'a str,
    b: &'a str,
    labels: usize,
    #[serde(flatten)]
    figures: RatedFigures,
}

#[derive(Serialize)]
struct RatedFigures {
    accuracy: Option<f64>,
    kappa: Option<f64>,
    kappa_interval: FigureInterval,
}

impl RatedFigures {
    /// Computes the figures of answers, grouped by subject.
    fn of(subjects: &[Vec<RatedPair>]) -> Self {
        let all = agreement(subjects.iter().flatten());
        let drawn = &subjects[..subjects.len().min(DRAWN_MAX)];
        Self {
            accuracy: all.map(|all| all.accuracy),
            kappa: all.and_then(|all| all.kappa),
            kappa_interval: interval(drawn),
        }
    }
}

pub(super) fn of_people(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let labels = asking.reader.labels(&asking.question.filter)?;
    let mut by_evaluator: BTreeMap<&str, Vec<&PersonLabel>> = BTreeMap::new();
    for label in &labels {
        let evaluator = label.evaluator.as_deref();
        evaluator.into_iter().for_each(|name| by_evaluator.entry(name).or_default().push(label));
    }
    let evaluators = by_evaluator.into_iter().map(|(name, labels)| rated(name, &labels));
    answer(&AgreementAnswer {
        labels: labels.len(),
        evaluators: evaluators.collect(),
        people: people(&labels),
    })
}

/// Groups labels by subject, in their order: newest first.
fn by_subject<'a>(labels: impl Iterator<Item = &'a PersonLabel>) -> Vec<Vec<&'a PersonLabel>> {
    let mut subjects: Vec<Vec<&PersonLabel>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for label in labels {
        let place = *places.entry(&label.subject).or_insert(subjects.len());
        if place == subjects.len() {
            subjects.push(Vec::new());
        }
        subjects[place].push(label);
    }
    subjects
}

/// Returns a label with the verdict; `None` if the evaluator gave none.
fn judged_pair(label: &PersonLabel) -> Option<RatedPair> {
    let verdict = label.verdict.filter(|verdict| ["pass", "fail"].contains(verdict))?;
    Some((label.label, verdict))
}

fn rated<'a>(evaluator: &'a str, labels: &[&'a PersonLabel]) -> RatedEvaluator<'a> {
    let judged = labels.iter().filter_map(|it| Some((*it, judged_pair(it)?)));
    let judged: Vec<(&PersonLabel, RatedPair)> = judged.collect();
    let subjects = by_subject(judged.iter().map(|(label, _)| *label));
    let pairs = |of: Vec<&PersonLabel>| of.into_iter().filter_map(judged_pair).collect();
    let subjects: Vec<Vec<RatedPair>> = subjects.into_iter().map(pairs).collect();
    let count = |pair| judged.iter().filter(|(_, it)| *it == pair).count();
    let opposite = judged.iter().filter(|(_, (label, verdict))| label != verdict);
    let disagreements =
        opposite.take(DISAGREEMENTS_MAX).map(|&(it, (label, verdict))| DisagreementItem {
            trace_id: &it.trace_id,
            evaluation_id: it.evaluation_id.as_deref(),
            author: &it.author,
            label,
            verdict,
        });
    RatedEvaluator {
        evaluator,
        labels: labels.len(),
        authors: labels.iter().map(|it| it.author.as_str()).collect::<BTreeSet<_>>().len(),
        pass_pass: count(("pass", "pass")),
        pass_fail: count(("pass", "fail")),
        fail_pass: count(("fail", "pass")),
        fail_fail: count(("fail", "fail")),
        unjudged: labels.len() - judged.len(),
        figures: RatedFigures::of(&subjects),
        disagreements: disagreements.collect(),
    }
}

/// Compares each two people on their common subjects.
fn people(labels: &[PersonLabel]) -> Vec<RatedPerson<'_>> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    labels.iter().for_each(|it| *counts.entry(&it.author).or_default() += 1);
    let mut authors: Vec<_> = counts.into_iter().collect();
    authors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let authors: BTreeSet<&str> = authors.iter().take(AUTHORS_MAX).map(|(it, _)| *it).collect();
    let compared = labels.iter().filter(|it| authors.contains(it.author.as_str()));
    let mut pairs: BTreeMap<(&str, &str), Vec<Vec<RatedPair>>> = BTreeMap::new();
    for mut of_subject in by_subject(compared) {
        of_subject.sort_by_key(|it| it.author.as_str());
        for (at, a) in of_subject.iter().enumerate() {
            for b in of_subject.iter().skip(at + 1) {
                pairs.entry((&a.author, &b.author)).or_default().push(vec![(a.label, b.label)]);
            }
        }
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(_, subjects)| std::cmp::Reverse(subjects.len()));
    let rated = pairs.into_iter().take(PAIRS_MAX).map(|((a, b), subjects)| RatedPerson {
        a,
        b,
        labels: subjects.len(),
        figures: RatedFigures::of(&subjects),
    });
    rated.collect()
}
