//! Inter-rater agreement beyond chance: Cohen's kappa, with a bootstrap interval.

use std::collections::BTreeMap;

/// Number of bootstrap draws.
const DRAWS: usize = 1_000;
/// Share of draws below the interval, and above it.
const TAIL: f64 = 0.025;

/// Label, and the judge's answer.
pub(super) type RatedPair = (&'static str, &'static str);

/// Agreement of two raters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Agreement {
    /// Share of equal answers, 0 to 1.
    pub(super) accuracy: f64,
    /// Cohen's kappa, `(po - pe) / (1 - pe)`; 1 if both always give one and the same answer.
    pub(super) kappa: f64,
    /// Number of answers.
    pub(super) count: usize,
}

/// Computes the agreement of some answers; `None` without any.
pub(super) fn agreement<'a>(pairs: impl Iterator<Item = &'a RatedPair>) -> Option<Agreement> {
    let mut same = 0.0;
    let mut count = 0.0;
    let mut shares: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (label, said) in pairs {
        same += f64::from(u8::from(label == said));
        count += 1.0;
        shares.entry(label).or_default().0 += 1.0;
        shares.entry(said).or_default().1 += 1.0;
    }
    if count == 0.0 {
        return None;
    }
    let accuracy = same / count;
    let chance: f64 = shares.values().map(|(label, said)| label * said).sum::<f64>();
    let chance = chance / (count * count);
    let kappa = if chance < 1.0 { (accuracy - chance) / (1.0 - chance) } else { 1.0 };
    Some(Agreement { accuracy, kappa, count: count as usize })
}

/// Computes the 95 % bootstrap interval of kappa. Whole runs are drawn, since the answers of one
/// run depend on each other. The generator is seeded with a constant: results repeat.
pub(super) fn interval(runs: &[Vec<RatedPair>]) -> Option<(f64, f64)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most.max(1) as u64) as usize
    };
    let mut kappas: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let drawn: Vec<usize> = runs.iter().map(|_| next(runs.len())).collect();
            let pairs = drawn.iter().filter_map(|at| runs.get(*at)).flatten();
            agreement(pairs).map(|it| it.kappa)
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
        assert!((found.kappa - 0.4).abs() < 1e-9, "{found:?}");
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
            let found = agreement(all.iter().flatten()).expect("some answers").kappa;
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
        assert_eq!(agreement(all.iter()).map(|it| it.kappa), Some(0.0));
        assert_eq!(agreement([("yes", "yes")].iter()).map(|it| it.kappa), Some(1.0));
        assert_eq!(agreement([].iter()), None);
    }
}
