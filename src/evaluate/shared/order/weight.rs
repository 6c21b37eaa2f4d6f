//! The longest common subsequence of two sequences, under any relation of "the same".
//!
//! Memory is linear in the second sequence; time is bounded by what the
//! caller allows, such as [`CELLS_MAX`].

/// Cells of the table that one comparison may cost where a cell costs next to nothing.
pub const CELLS_MAX: usize = 64_000_000;

/// The comparison would cost more than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {cells_max} comparisons of calls would be needed")]
pub struct TooLarge {
    /// What is allowed.
    pub cells_max: usize,
}

/// Length of the longest common subsequence of `0..a` and `0..b`, where `same(i, j)` says whether
/// the element `i` of the first is the element `j` of the second. What is common at both ends does
/// not count against `cells_max`.
pub fn length(
    a: usize,
    b: usize,
    cells_max: usize,
    mut same: impl FnMut(usize, usize) -> bool,
) -> Result<usize, TooLarge> {
    // A match at either end belongs to some longest common subsequence.
    let head = (0..a.min(b)).take_while(|&i| same(i, i)).count();
    let (a_rest, b_rest) = (a - head, b - head);
    let tail = (1..=a_rest.min(b_rest)).take_while(|&i| same(a - i, b - i)).count();
    let (rows, columns) = (a_rest - tail, b_rest - tail);
    if rows == 0 || columns == 0 {
        return Ok(head + tail);
    }
    if rows.checked_mul(columns).is_none_or(|cells| cells > cells_max) {
        return Err(TooLarge { cells_max });
    }
    // row[j]: longest common subsequence of the rows so far and the first j columns.
    let mut row = vec![0; columns + 1];
    for i in 0..rows {
        let mut diagonal = 0;
        for j in 0..columns {
            let above = row[j + 1];
            row[j + 1] = if same(head + i, head + j) { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    Ok(head + tail + row[columns])
}

/// Weight of the heaviest common subsequence, where `weight(i, j)` is what pairing the two is
/// worth, 0 if they cannot be paired. Each pair is asked for once.
pub fn weight(a: usize, b: usize, mut weight: impl FnMut(usize, usize) -> f64) -> f64 {
    let mut row = vec![0.0_f64; b + 1];
    for i in 0..a {
        let mut diagonal = 0.0;
        for j in 0..b {
            let above = row[j + 1];
            let worth = weight(i, j);
            let paired = if worth > 0.0 { diagonal + worth } else { 0.0 };
            row[j + 1] = above.max(row[j]).max(paired);
            diagonal = above;
        }
    }
    row[b]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries everything.
    fn naive(a: usize, b: usize, same: &dyn Fn(usize, usize) -> bool) -> usize {
        if a == 0 || b == 0 {
            return 0;
        }
        let paired = if same(a - 1, b - 1) { 1 + naive(a - 1, b - 1, same) } else { 0 };
        paired.max(naive(a - 1, b, same)).max(naive(a, b - 1, same))
    }

    proptest! {
        #[test]
        fn as_long_as_trying_everything_finds(
            relation in (0_usize..6).prop_flat_map(|columns| {
                prop::collection::vec(prop::collection::vec(any::<bool>(), columns), 0..6)
            }),
        ) {
            let (rows, columns) = (relation.len(), relation.first().map_or(0, Vec::len));
            let same = |i: usize, j: usize| relation[i][j];
            let found = length(rows, columns, CELLS_MAX, same);
            prop_assert_eq!(found, Ok(naive(rows, columns, &same)));
        }

        #[test]
        fn order_of_the_two_does_not_count(a in "[abc]{0,9}", b in "[abc]{0,9}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let forth = length(a.len(), b.len(), CELLS_MAX, |i, j| a[i] == b[j]);
            let back = length(b.len(), a.len(), CELLS_MAX, |i, j| b[i] == a[j]);
            prop_assert_eq!(forth, back);
        }
    }

    #[test]
    fn only_what_differs_counts_against_the_limit() {
        assert_eq!(length(100_000, 100_000, 0, |i, j| i == j), Ok(100_000));
        assert_eq!(length(10, 10, 100, |_, _| false), Ok(0));
        assert_eq!(length(10, 11, 100, |_, _| false), Err(TooLarge { cells_max: 100 }));
    }
}
