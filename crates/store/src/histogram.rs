//! Packed histograms: the non-empty bins, as pairs of gap and count in varints.

use spanscore_base::otlp::wire::{Fields, put_varint};

/// Number of bins for scores: exactly 0, twenty of 0.05, exactly 1.
pub const SCORE_BINS: usize = 22;
/// Number of bins for durations: below 1 ms, quarters of powers of two up to an hour, above.
pub const DURATION_BINS: usize = 90;

/// Returns the bin of a score.
pub(crate) fn score_bin(score: f64) -> usize {
    if score <= 0.0 {
        0
    } else if score >= 1.0 {
        SCORE_BINS - 1
    } else {
        // A product such as 0.05 * 20 may round to below the integer.
        1 + ((score * 20.0 + 1e-9) as usize).min(19)
    }
}

/// Returns the bin of a duration in microseconds.
pub(crate) fn duration_bin(micros: i64) -> usize {
    if micros < 1_000 {
        return 0;
    }
    let quarters = (micros as f64 / 1_000.0).log2() * 4.0;
    1 + (quarters as usize).min(DURATION_BINS - 2)
}

/// Returns the upper bound of a duration bin, seconds; infinite for the last.
pub fn duration_bound(bin: usize) -> f64 {
    if bin + 1 == DURATION_BINS { f64::INFINITY } else { 2_f64.powf(bin as f64 / 4.0) / 1_000.0 }
}

/// Packs bins; a negative count, possible only after damage, is 0.
pub(crate) fn pack(bins: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut gap = 0;
    for &count in bins {
        if count <= 0 {
            gap += 1;
            continue;
        }
        put_varint(gap, &mut out);
        put_varint(count as u64, &mut out);
        gap = 0;
    }
    out
}

/// Adds packed bins to others; bins past the end are ignored.
pub fn add_packed(packed: &[u8], bins: &mut [i64]) {
    let mut rest = Fields::new(packed);
    let mut at = 0_usize;
    while let Ok(gap) = rest.varint() {
        let Ok(count) = rest.varint() else { return };
        at = at.saturating_add(usize::try_from(gap).unwrap_or(usize::MAX));
        let Some(bin) = bins.get_mut(at) else { return };
        *bin = bin.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn scores_fall_into_bins_of_a_twentieth() {
        let check = |score, bin| assert_eq!(score_bin(score), bin, "{score}");
        check(0.0, 0);
        check(0.01, 1);
        check(0.05, 2);
        check(0.15, 4);
        check(0.95, 20);
        check(0.999, 20);
        check(1.0, 21);
    }

    #[test]
    fn a_duration_is_below_the_bound_of_its_bin() {
        for micros in [0, 999, 1_000, 1_100, 5_000, 1_000_000, 3_599_000_000, i64::MAX] {
            let bin = duration_bin(micros);
            assert!(micros as f64 / 1e6 <= duration_bound(bin), "{micros} in {bin}");
            assert!(bin == 0 || micros as f64 / 1e6 >= duration_bound(bin - 1) * 0.999_999);
        }
    }

    proptest! {
        #[test]
        fn packed_bins_read_back(bins in proptest::collection::vec(0_i64..1_000_000, 0..40)) {
            let mut back = vec![0; bins.len()];
            add_packed(&pack(&bins), &mut back);
            prop_assert_eq!(back, bins);
        }
    }
}
