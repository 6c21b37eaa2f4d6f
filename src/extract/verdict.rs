//! What the conditions that hold mean for a span: remembered, since the spans of an instrumentation
//! are of few kinds.

use super::bits::Bits;
use super::facts::{CONDITIONS, put_header};
use super::table::{Kept, Matching, Table};

/// Most verdicts that are remembered; when one more comes the oldest goes.
const VERDICTS_MAX: usize = 16;

/// Verdicts of the spans of one request.
#[derive(Default)]
pub(super) struct Verdicts {
    known: Vec<Verdict>,
    /// Where the next verdict goes once the list is full.
    next: usize,
}

/// What to do with a span of which certain statements hold.
pub(super) struct Verdict {
    bits: Bits,
    hash: u64,
    /// The stated conditions that hold, as a field of a record's facts.
    pub(super) conditions: Vec<u8>,
    pub(super) keep: Kept,
    pub(super) meaning: Meaning,
}

/// What the conditions that hold say about a span.
#[derive(Clone, Copy, Default)]
pub(super) struct Meaning {
    pub(super) tool: bool,
    pub(super) agent: bool,
    pub(super) pending: bool,
    pub(super) log: bool,
}

impl Verdicts {
    /// The verdict on the span at hand.
    #[inline]
    pub(super) fn on(&mut self, table: &Table, matching: &Matching) -> &Verdict {
        let hash = matching.bits().hash();
        let known = |verdict: &Verdict| verdict.hash == hash && verdict.bits == *matching.bits();
        let at = match self.known.iter().position(known) {
            Some(at) => at,
            None => self.add(Verdict::new(table, matching, hash)),
        };
        &self.known[at]
    }

    #[cold]
    fn add(&mut self, verdict: Verdict) -> usize {
        if self.known.len() < VERDICTS_MAX {
            self.known.push(verdict);
            return self.known.len() - 1;
        }
        self.next = (self.next + 1) % VERDICTS_MAX;
        self.known[self.next] = verdict;
        self.next
    }
}

impl Verdict {
    fn new(table: &Table, matching: &Matching, hash: u64) -> Self {
        let bits = *matching.bits();
        let conditions = matching.finish(table);
        let mut keep = table.base.clone();
        let mut meaning = Meaning::default();
        let means = || conditions.iter().filter_map(|id| Some((*id, table.compiled(*id)?)));
        let stated = means().filter(|(_, means)| means.stated).count();
        let mut encoded = Vec::with_capacity(4 + 2 * stated);
        if stated > 0 {
            put_header(&mut encoded, CONDITIONS, 2 * stated);
        }
        for (id, means) in means() {
            keep.extend(&means.keep);
            meaning.tool |= means.tool;
            meaning.agent |= means.agent;
            meaning.pending |= means.pending;
            meaning.log |= means.log;
            if means.stated {
                encoded.extend_from_slice(&id.to_le_bytes());
            }
        }
        Self { bits, hash, conditions: encoded, keep, meaning }
    }
}
