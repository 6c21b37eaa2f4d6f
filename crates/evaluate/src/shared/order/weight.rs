//! Heaviest common subsequence, with weighted pairs. Bits cannot represent weights, so this fills a
//! table of sums, row by row.

/// Returns the weight of the heaviest common subsequence, where `weight(i, j)` is the weight of a
/// pair, 0 if they do not match. Each pair is computed once.
pub(crate) fn weight(a: usize, b: usize, mut weight: impl FnMut(usize, usize) -> f64) -> f64 {
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
