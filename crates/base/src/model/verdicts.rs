//! Earlier verdicts of a target, to determine the ones that a revision replaces.

use super::{Evaluation, GivenVerdict, Level, fingerprint};

/// Largest number of remembered verdicts of one target; a revision replaces no others.
pub const VERDICTS_MAX: usize = 1_000;

/// The last verdict of each evaluator, and of each call if it judges calls.
#[derive(Clone, Debug, Default)]
pub struct GivenVerdicts(Vec<(u64, GivenVerdict)>);

impl GivenVerdicts {
    /// Returns the bytes held.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u64, GivenVerdict)>()
    }

    /// Returns true if there is no verdict.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets the verdict that each evaluation replaces, and remembers the new one.
    pub fn supersede(&mut self, evaluations: &mut [Evaluation]) {
        let before = self.0.len();
        let mut taken = vec![false; before];
        for evaluation in evaluations {
            let key = key(evaluation);
            let verdict = evaluation.verdict();
            // Several calls of one span differ by their order.
            let known = self.0[..before].iter().enumerate();
            let mut free = known.filter(|(at, (other, _))| *other == key && !taken[*at]);
            match free.next().map(|(at, _)| at) {
                Some(at) => {
                    taken[at] = true;
                    evaluation.supersedes = Some(std::mem::replace(&mut self.0[at].1, verdict));
                }
                None if self.0.len() < VERDICTS_MAX => self.0.push((key, verdict)),
                None => {}
            }
        }
        self.0.shrink_to_fit();
    }
}

/// Returns a key of the evaluator, and of the span if it judges calls.
fn key(evaluation: &Evaluation) -> u64 {
    let name = u64::from(fingerprint(evaluation.evaluator.name.as_bytes()));
    let span = match evaluation.evaluator.level {
        Level::Call => u64::from_be_bytes(evaluation.span_id.0),
        Level::Trace | Level::Session => 0,
    };
    span.rotate_left(17) ^ name.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
