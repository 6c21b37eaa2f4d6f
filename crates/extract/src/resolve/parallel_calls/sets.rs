//! Disjoint sets (union-find) of related calls.

/// Sets of numbers from 0. A set's root is its lowest number, so that the result is independent of
/// the order of joins.
pub(super) struct Sets {
    above: Vec<u32>,
}

impl Sets {
    pub(super) fn new(count: usize) -> Self {
        Self { above: (0..count as u32).collect() }
    }

    /// Returns the lowest number in a number's set; halves the path to it.
    pub(super) fn of(&mut self, mut at: u32) -> u32 {
        while self.above[at as usize] != at {
            let above = self.above[at as usize];
            self.above[at as usize] = self.above[above as usize];
            at = above;
        }
        at
    }

    /// Joins the sets of two numbers.
    pub(super) fn join(&mut self, one: u32, other: u32) {
        let one = self.of(one);
        let other = self.of(other);
        self.above[one.max(other) as usize] = one.min(other);
    }

    /// Joins neighbours that satisfy `together`.
    pub(super) fn join_runs(&mut self, numbers: &[u32], together: impl Fn(u32, u32) -> bool) {
        for [one, next] in numbers.array_windows() {
            if together(*one, *next) {
                self.join(*one, *next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_join_transitively() {
        let mut sets = Sets::new(6);
        sets.join_runs(&[4, 2, 5, 0], |one, next| one > next);
        sets.join(2, 3);
        let of: Vec<u32> = (0..6).map(|at| sets.of(at)).collect();
        assert_eq!(of, [0, 1, 2, 2, 2, 0]);
    }
}
