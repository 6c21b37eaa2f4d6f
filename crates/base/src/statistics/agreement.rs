//! Agreement of two raters: Cohen's kappa with a bootstrap interval, and false answers with
//! Wilson's.

use std::collections::BTreeMap;

use super::Share;

/// Number of bootstrap draws.
const DRAWS: usize = 1_000;
/// Share of draws below the interval, and above it.
const TAIL: f64 = 0.025;

/// Label, and the answer of the assessed rater.
pub type RatedPair = (&'static str, &'static str);

/// Agreement of two raters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Share of equal answers, 0 to 1.
    pub accuracy: f64,
    /// Cohen's kappa, `(po - pe) / (1 - pe)`; `None` if all labels are equal, where any agreement
    /// may be chance.
    pub kappa: Option<f64>,
    /// Number of answers.
    pub count: usize,
}

/// Computes the agreement of some answers; `None` without any.
pub fn agreement<'a>(pairs: impl Iterator<Item = &'a RatedPair>) -> Option<Agreement> {
    of_sums(pairs.map(|pair| (*pair, 1.0)))
}

/// Computes the agreement from answers with their counts.
fn of_sums(answers: impl Iterator<Item = (RatedPair, f64)>) -> Option<Agreement> {
    let mut same = 0.0;
    let mut count = 0.0;
    let mut shares: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for ((label, said), times) in answers {
        same += times * f64::from(u8::from(label == said));
        count += times;
        shares.entry(label).or_default().0 += times;
        shares.entry(said).or_default().1 += times;
    }
    if count == 0.0 {
        return None;
    }
    let accuracy = same / count;
    let chance: f64 = shares.values().map(|(label, said)| label * said).sum::<f64>();
    let chance = chance / (count * count);
    let labels = shares.values().filter(|(label, _)| *label > 0.0).count();
    let kappa = (labels > 1).then(|| (accuracy - chance) / (1.0 - chance));
    Some(Agreement { accuracy, kappa, count: count as usize })
}

/// Counts the distinct answers of a run, and numbers new ones.
fn counts(run: &[RatedPair], kinds: &mut BTreeMap<RatedPair, usize>) -> Vec<(usize, f64)> {
    let mut counts: Vec<(usize, f64)> = Vec::new();
    for pair in run {
        let next = kinds.len();
        let kind = *kinds.entry(*pair).or_insert(next);
        match counts.iter_mut().find(|(it, _)| *it == kind) {
            Some((_, count)) => *count += 1.0,
            None => counts.push((kind, 1.0)),
        }
    }
    counts
}

/// Counts the answers to a label that are its opposite, among all its answers.
pub fn false_answers(runs: &[Vec<RatedPair>], label: &str, opposite: &str) -> Share {
    let labelled = runs.iter().flatten().filter(|(of, _)| *of == label);
    let (wrong, count) = labelled.fold((0, 0), |(wrong, count), (_, said)| {
        (wrong + i64::from(*said == opposite), count + 1)
    });
    Share::new(wrong, count)
}

/// Estimates the number of runs that narrows an interval to `wanted`: its width shrinks with the
/// square root of their number. `None` without a width.
pub fn runs_for_width(runs: usize, interval: (f64, f64), wanted: f64) -> Option<usize> {
    let width = interval.1 - interval.0;
    let is_known = width > 0.0 && wanted > 0.0;
    is_known.then(|| (runs as f64 * (width / wanted).powi(2)).ceil() as usize)
}

/// Computes the 95 % bootstrap interval of kappa; `None` if no draw has a kappa. Whole runs are
/// drawn, since the answers of one run depend on each other. The generator has a constant seed, so
/// results repeat.
pub fn interval(runs: &[Vec<RatedPair>]) -> Option<(f64, f64)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most.max(1) as u64) as usize
    };
    // Each draw adds the counts of a run's distinct answers, however many answers it has.
    let mut kinds: BTreeMap<RatedPair, usize> = BTreeMap::new();
    let counted: Vec<_> = runs.iter().map(|run| counts(run, &mut kinds)).collect();
    let mut kappas: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let mut sums = vec![0.0; kinds.len()];
            for _ in runs {
                let drawn = counted.get(next(runs.len())).into_iter().flatten();
                drawn.for_each(|(kind, count)| sums[*kind] += count);
            }
            of_sums(kinds.iter().map(|(pair, kind)| (*pair, sums[*kind])))?.kappa
        })
        .collect();
    kappas.sort_by(f64::total_cmp);
    let at = |share: f64| kappas.get(((kappas.len() as f64 - 1.0) * share) as usize).copied();
    Some((at(TAIL)?, at(1.0 - TAIL)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(counts: [(RatedPair, usize); 4]) -> Vec<RatedPair> {
        counts.into_iter().flat_map(|(pair, count)| std::iter::repeat_n(pair, count)).collect()
    }

    /// Textbook example: 20 and 15 of 50 alike.
    #[test]
    fn kappa_is_what_the_formula_says() {
        let all = pairs([
            (("yes", "yes"), 20),
            (("yes", "no"), 5),
            (("no", "yes"), 10),
            (("no", "no"), 15),
        ]);
        let found = agreement(all.iter()).expect("some answers");
        assert_eq!((found.accuracy, found.count), (0.7, 50));
        assert!((found.kappa.unwrap() - 0.4).abs() < 1e-9, "{found:?}");
        let runs: Vec<_> = all.iter().map(|pair| vec![*pair]).collect();
        let (low, high) = interval(&runs).expect("an interval");
        assert!((0.05..0.3).contains(&low) && (0.5..0.75).contains(&high), "{low} {high}");
    }

    /// Builds labels, half of them yes, beside a judge that errs with this probability.
    fn rated(count: usize, errs: f64, state: &mut u64) -> Vec<Vec<RatedPair>> {
        let mut chance = || {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            (*state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let one = |at: usize| {
            let (label, other) = if at.is_multiple_of(2) { ("yes", "no") } else { ("no", "yes") };
            vec![(label, if chance() < errs { other } else { label })]
        };
        (0..count).map(one).collect()
    }

    /// Half the labels are yes, so chance is right in one half: kappa is `1 - 2 p`.
    #[test]
    fn a_noisy_judge_has_the_kappa_of_its_errors() {
        let mut state = 0x1234_5678_9abc_def1;
        for errs in [0.0, 0.1, 0.2, 0.5] {
            let all = rated(4_000, errs, &mut state);
            let found = agreement(all.iter().flatten()).expect("some answers").kappa.unwrap();
            assert!((found - (1.0 - 2.0 * errs)).abs() < 0.05, "{errs}: {found}");
        }
    }

    /// Forty experiments with a true kappa of 0.6: some 38 have it in their interval.
    #[test]
    fn an_interval_holds_the_true_kappa_about_as_often_as_it_says() {
        let mut state = 0x0dd0_5678_9abc_def1;
        let holds = (0..40).filter(|_| {
            let (low, high) = interval(&rated(60, 0.2, &mut state)).expect("an interval");
            (low..=high).contains(&0.6)
        });
        let holds = holds.count();
        assert!((34..=40).contains(&holds), "{holds} of 40");
    }

    #[test]
    fn a_judge_that_always_says_yes_agrees_by_chance_alone() {
        let all = [("yes", "yes"), ("no", "yes"), ("yes", "yes")];
        assert_eq!(agreement(all.iter()).map(|it| it.kappa), Some(Some(0.0)));
        assert_eq!(agreement([].iter()), None);
    }

    #[test]
    fn labels_of_one_kind_have_no_kappa() {
        for all in [[("yes", "yes"); 2], [("yes", "yes"), ("yes", "no")]] {
            assert_eq!(agreement(all.iter()).map(|it| it.kappa), Some(None));
            assert_eq!(interval(&[all.to_vec()]), None);
        }
    }

    #[test]
    fn false_answers_are_counted_among_those_of_their_label() {
        let runs = [vec![("no", "yes"), ("no", "no")], vec![("no", "unclear"), ("yes", "no")]];
        let found = false_answers(&runs, "no", "yes");
        assert_eq!((found.hits, found.count), (1.0, 3.0));
        assert_eq!(false_answers(&runs, "yes", "no").rate(), Some(1.0));
        assert_eq!(false_answers(&runs, "unclear", "yes").interval(), None);
    }

    /// A fourfold number of runs halves the width, also of intervals that were drawn.
    #[test]
    fn more_runs_make_an_interval_narrower_as_foretold() {
        assert_eq!(runs_for_width(50, (0.4, 0.8), 0.2), Some(200));
        assert_eq!(runs_for_width(50, (1.0, 1.0), 0.2), None);
        let mut state = 0x1234_5678_9abc_def1;
        let of = |count: usize, state: &mut u64| interval(&rated(count, 0.2, state)).unwrap();
        let few = of(100, &mut state);
        let needed = runs_for_width(100, few, 0.1).unwrap();
        let (low, high) = of(needed, &mut state);
        assert!((0.08..0.12).contains(&(high - low)), "{needed} runs: {low} to {high}");
    }
}
