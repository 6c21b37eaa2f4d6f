use proptest::prelude::*;

use super::*;

/// Returns all orders of some calls.
pub(crate) fn orders(calls: &[usize]) -> Vec<Vec<usize>> {
    let Some((first, rest)) = calls.split_first() else { return vec![Vec::new()] };
    let put = |order: &[usize], at: usize| [&order[..at], &[*first], &order[at..]].concat();
    let with = |order: Vec<usize>| (0..=order.len()).map(|at| put(&order, at)).collect::<Vec<_>>();
    orders(rest).into_iter().flat_map(with).collect()
}

/// Returns the calls in every order allowed by their groups.
pub(crate) fn flattened(groups: &[Range<usize>]) -> Vec<Vec<usize>> {
    let start = vec![Vec::new()];
    groups.iter().fold(start, |heads: Vec<Vec<usize>>, group| {
        let tails = orders(&group.clone().collect::<Vec<_>>());
        let with = |head: Vec<usize>| tails.iter().map(move |tail| [&head[..], tail].concat());
        heads.into_iter().flat_map(with).collect()
    })
}

/// Computes the textbook's table.
fn lcs(calls: &[usize], fits: &[Vec<bool>]) -> usize {
    let expected = fits.first().map_or(0, Vec::len);
    let mut row = vec![0; expected + 1];
    for call in calls {
        let before = row.clone();
        for j in 0..expected {
            row[j + 1] = row[j].max(before[j + 1]);
            if fits[*call][j] {
                row[j + 1] = row[j + 1].max(before[j] + 1);
            }
        }
    }
    row[expected]
}

pub(crate) fn groups_of(sizes: &[usize]) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |size: &usize| {
        end += size;
        end - size..end
    };
    sizes.iter().map(range).collect()
}

fn order(
    groups: &[Range<usize>],
    fits: &[Vec<bool>],
) -> InOrder<'static, impl FnMut(usize, usize) -> bool> {
    // No test takes more than an evaluation may.
    let effort = Box::leak(Box::default());
    let expected = fits.first().map_or(0, Vec::len);
    let fits = |call: usize, position: usize| fits[call][position];
    InOrder { groups: groups.to_vec(), expected, questions_max: 1000, effort, fits }
}

/// Groups, and the relation of calls and matching positions.
fn cases() -> impl Strategy<Value = (Vec<Range<usize>>, Vec<Vec<bool>>)> {
    (prop::collection::vec(1_usize..4, 1..4), 1_usize..6).prop_flat_map(|(sizes, expected)| {
        let groups = groups_of(&sizes);
        let calls = sizes.iter().sum::<usize>();
        let fits = prop::collection::vec(prop::collection::vec(any::<bool>(), expected), calls);
        (Just(groups), fits)
    })
}

proptest! {
    #[test]
    fn as_much_is_kept_as_the_best_order_inside_the_groups_keeps((groups, fits) in cases()) {
        let all = flattened(&groups);
        let best = all.iter().map(|calls| lcs(calls, &fits)).max().unwrap();
        prop_assert_eq!(order(&groups, &fits).length(), Ok(best));
        let kept = order(&groups, &fits).kept().unwrap();
        prop_assert_eq!(kept.len(), best);
        prop_assert!(kept.is_sorted_by(|a, b| a < b));
        // All kept positions can be kept: some order has exactly these.
        let only: Vec<Vec<bool>> =
            fits.iter().map(|row| kept.iter().map(|at| row[*at]).collect()).collect();
        prop_assert_eq!(all.iter().map(|calls| lcs(calls, &only)).max(), Some(best));
        let expected = fits[0].len();
        prop_assert_eq!(order(&groups, &fits).whole(), Ok(best == expected));
        let exact = best == expected && fits.len() == expected;
        prop_assert_eq!(order(&groups, &fits).exact(), Ok(exact));
    }

    #[test]
    fn what_is_kept_does_not_depend_on_the_listing((groups, fits) in cases()) {
        let kept = order(&groups, &fits).kept();
        for calls in flattened(&groups) {
            let listed: Vec<_> = calls.iter().map(|call| fits[*call].clone()).collect();
            prop_assert_eq!(order(&groups, &listed).kept(), kept.clone());
        }
    }
}

#[test]
fn a_group_stands_for_the_latest_positions_that_it_can() {
    let mut group = CallGroup::new(2);
    let fits = [[true, false], [true, true], [true, false], [false, true]];
    for position in fits {
        assert!(group.ask(|call| position[call]));
        group.take_latest();
    }
    assert_eq!(group.taken(), [2, 3]);
    assert!(!group.ask(|_| false));
    assert!(!group.take());
}

#[test]
fn large_groups_are_judged_or_refused_in_time() {
    let together = |calls: usize, expected: usize, questions_max: usize| {
        let groups: Vec<_> = std::iter::once(0..calls).collect();
        // Each call matches two neighbours, so that all have to move.
        let fits = |call: usize, at: usize| call == at || call == at + 1;
        let order =
            |effort| InOrder { groups: groups.clone(), expected, questions_max, effort, fits };
        (order(&WorkBudget::default()).length(), order(&WorkBudget::default()).whole())
    };
    assert_eq!(together(300, 300, 100_000), (Ok(300), Ok(true)));
    let refused = TableTooLarge { cells_max: 80_000 };
    assert_eq!(together(300, 300, 80_000).0, Err(refused));
    assert!(together(300, 300, 80_000).1.is_err());
}

/// Returns the length and positions from the textbook's table and backtracking.
fn naive(calls: &[&str], expected: &[&str]) -> (usize, Vec<usize>) {
    let m = calls.len();
    let n = expected.len();
    let mut table = vec![vec![0; n + 1]; m + 1];
    for i in 1..=m {
        for j in 1..=n {
            table[i][j] = if calls[i - 1] == expected[j - 1] {
                table[i - 1][j - 1] + 1
            } else {
                table[i - 1][j].max(table[i][j - 1])
            };
        }
    }
    let mut i = m;
    let mut j = n;
    let mut found = Vec::new();
    while i > 0 && j > 0 {
        if calls[i - 1] == expected[j - 1] {
            found.push(j - 1);
            (i, j) = (i - 1, j - 1);
        } else if table[i - 1][j] > table[i][j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    found.reverse();
    (table[m][n], found)
}

fn singles_in_words(calls: &[&str], expected: &[&str]) -> (usize, Vec<usize>) {
    let masks = Masks::new(expected);
    let rows = || calls.iter().map(|word| masks.get(word));
    let found = of_singles(rows(), expected.len(), true);
    assert_eq!(of_singles(rows(), expected.len(), false), (found.0, Vec::new()));
    let effort = WorkBudget::default();
    let in_order = InOrder {
        groups: singles(calls.len()),
        expected: expected.len(),
        questions_max: usize::MAX,
        effort: &effort,
        fits: |call: usize, at: usize| calls[call] == expected[at],
    };
    assert_eq!(in_order.length(), Ok(found.0));
    found
}

proptest! {
    #[test]
    fn bits_find_what_the_textbook_table_finds(
        calls in prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 0..150),
        expected in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 0..150),
    ) {
        let found = singles_in_words(&calls, &expected);
        prop_assert_eq!(found, naive(&calls, &expected));
    }

    #[test]
    fn single_calls_and_positions_can_change_places(a in "[abc]{0,9}", b in "[abc]{0,9}") {
        let length = |a: &[u8], b: &[u8]| alone(a.len(), b.len(), CELLS_MAX, |i, j| a[i] == b[j]);
        prop_assert_eq!(length(a.as_bytes(), b.as_bytes()), length(b.as_bytes(), a.as_bytes()));
    }
}

#[test]
fn ten_thousand_calls_against_a_thousand_take_a_bit_each() {
    let words = ["a", "b", "c", "d", "e", "f", "g"];
    let expected: Vec<&str> = (0..1000).map(|i| words[i * i % 7]).collect();
    let calls: Vec<&str> = (0..10_000).map(|i| words[i % 7]).collect();
    let found = singles_in_words(&calls, &expected);
    assert_eq!(found, (1000, (0..1000).collect()));
}

fn alone(
    calls: usize,
    expected: usize,
    questions_max: usize,
    fits: impl FnMut(usize, usize) -> bool,
) -> Result<usize, TableTooLarge> {
    let effort = WorkBudget::default();
    InOrder { groups: singles(calls), expected, questions_max, effort: &effort, fits }.length()
}

#[test]
fn only_what_differs_counts_against_the_limit() {
    assert_eq!(alone(100_000, 100_000, 0, |i, j| i == j), Ok(100_000));
    assert_eq!(alone(10, 10, 100, |_, _| false), Ok(0));
    assert_eq!(alone(10, 11, 100, |_, _| false), Err(TableTooLarge { cells_max: 100 }));
}
