//! Reference counts on log positions: a record stays while unfinished work has a claim on it.
//!
//! A source gives each of its records a position: a place in a log, an offset of a partition. Work
//! holds a [`Claim`] on the position of its first record, for as long as it would have to be done
//! again if the process ended: a batch in a queue, a trace that is open or remembered, evaluations
//! that have not arrived. A source may delete all records below the [`lowest`](Source::lowest)
//! claimed position: a segment of the log goes once it ends there.
//!
//! Only the lowest claim of a source counts, so work on many records holds one claim ([`Claims`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

/// Origin of records, such as a log, with its claimed positions.
#[derive(Debug, Default)]
pub struct Source {
    /// Number of claims on each position.
    claimed: Mutex<BTreeMap<u64, u32>>,
}

impl Source {
    /// Claims a position. The claim is cheap to clone: a clone is the same claim.
    pub fn claim(self: &Arc<Self>, position: u64) -> Claim {
        *self.claimed().entry(position).or_default() += 1;
        Claim(Arc::new(ClaimedPlace { source: Arc::clone(self), position }))
    }

    /// Returns the lowest claimed position.
    pub fn lowest(&self) -> Option<u64> {
        self.claimed().first_key_value().map(|(position, _)| *position)
    }

    /// Returns the number of claimed positions.
    pub fn claim_count(&self) -> usize {
        self.claimed().len()
    }

    fn claimed(&self) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct ClaimedPlace {
    source: Arc<Source>,
    position: u64,
}

impl Drop for ClaimedPlace {
    fn drop(&mut self) {
        let mut claimed = self.source.claimed();
        if let Some(count) = claimed.get_mut(&self.position) {
            *count -= 1;
            if *count == 0 {
                claimed.remove(&self.position);
            }
        }
    }
}

/// Claim on a position of a source: its record stays until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Claim(Arc<ClaimedPlace>);

impl Claim {
    /// Returns the claimed position.
    pub fn position(&self) -> u64 {
        self.0.position
    }

    fn is_of_source_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.source, &other.0.source)
    }
}

/// The lowest claim of each source: enough to redo work on many records.
#[derive(Clone, Debug, Default)]
pub struct Claims(SmallVec<[Claim; 1]>);

impl Claims {
    /// Adds the claims of another; of each source, the lower one stays.
    pub fn join(&mut self, other: &Self) {
        for claim in &other.0 {
            match self.0.iter_mut().find(|own| own.is_of_source_of(claim)) {
                Some(own) if own.position() <= claim.position() => {}
                Some(own) => *own = claim.clone(),
                None => self.0.push(claim.clone()),
            }
        }
    }

    /// Returns true if nothing is claimed: the records are in no log.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Claim> for Claims {
    fn from(claim: Claim) -> Self {
        Self(SmallVec::from_elem(claim, 1))
    }
}

/// Delivery receipt of evaluations: everyone who must deliver them holds a clone, and drops it once
/// they have arrived, or were given up and counted.
///
/// Dropping the last clone drops the claims of the evaluations and calls `arrived`, unless one of
/// the holders [left](Self::leave) them undelivered.
#[derive(Clone)]
pub struct Receipt(Arc<ReceiptParts>);

struct ReceiptParts {
    claims: Claims,
    is_left: AtomicBool,
    arrived: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Receipt {
    /// Returns a receipt that holds these claims and calls `arrived` once everything has arrived.
    pub fn new(claims: Claims, arrived: impl FnOnce() + Send + 'static) -> Self {
        let arrived = Mutex::new(Some(Box::new(arrived) as Box<dyn FnOnce() + Send>));
        Self(Arc::new(ReceiptParts { claims, is_left: AtomicBool::new(false), arrived }))
    }

    /// Marks the evaluations as undelivered, with no further attempt in this process: the next
    /// process makes it.
    pub fn leave(&self) {
        self.0.is_left.store(true, Ordering::Release);
    }

    /// Returns the claims on the records that the evaluations come from.
    pub fn claims(&self) -> &Claims {
        &self.0.claims
    }
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receipt").field("claims", &self.0.claims).finish_non_exhaustive()
    }
}

impl Drop for ReceiptParts {
    fn drop(&mut self) {
        if self.is_left.load(Ordering::Acquire) {
            return;
        }
        if let Some(arrived) = self.arrived.get_mut().unwrap_or_else(PoisonError::into_inner).take()
        {
            arrived();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_position_is_that_of_the_oldest_work() {
        let source = Arc::new(Source::default());
        let first = source.claim(10);
        let second = source.claim(20);
        let again = source.claim(10);
        assert_eq!(source.lowest(), Some(10));
        drop(first);
        assert_eq!(source.lowest(), Some(10), "claimed twice");
        drop(again.clone());
        assert_eq!(source.lowest(), Some(10), "a clone is the same claim");
        drop(again);
        assert_eq!((source.lowest(), source.claim_count()), (Some(20), 1));
        drop(second);
        assert_eq!(source.lowest(), None);
    }

    #[test]
    fn claims_keep_the_lowest_of_each_source() {
        let log = Arc::new(Source::default());
        let partition = Arc::new(Source::default());
        let mut claims = Claims::from(log.claim(7));
        claims.join(&log.claim(3).into());
        claims.join(&log.claim(5).into());
        claims.join(&partition.claim(1).into());
        assert_eq!((log.lowest(), log.claim_count()), (Some(3), 1));
        assert_eq!(partition.lowest(), Some(1));
        drop(claims);
        assert_eq!((log.lowest(), partition.lowest()), (None, None));
    }

    #[test]
    fn receipt_tells_when_the_last_has_delivered_and_not_when_something_was_left() {
        let source = Arc::new(Source::default());
        for is_left in [false, true] {
            let arrived = Arc::new(AtomicBool::new(false));
            let told = Arc::clone(&arrived);
            let claims = source.claim(1).into();
            let one = Receipt::new(claims, move || told.store(true, Ordering::Relaxed));
            let other = one.clone();
            drop(one);
            assert!(!arrived.load(Ordering::Relaxed) && source.lowest().is_some());
            if is_left {
                other.leave();
            }
            drop(other);
            assert_eq!(arrived.load(Ordering::Relaxed), !is_left);
            assert_eq!(source.lowest(), None);
        }
    }
}
