//! Loans of space between two logs.

use parking_lot::Mutex;

use super::frame::SEGMENT_HEAD_BYTES;
use super::{AppendError, Log, RecordHead, WeakLog, record_bytes};
use spanscore_base::model::Claim;

/// Space beyond a log's limit, borrowed from the free space of another. The lender then has that
/// much less for its records, so together they stay within their limits.
pub struct Loan {
    lender: WeakLog,
    /// Limit of the borrower without a loan, bytes.
    own_max: u64,
    state: Mutex<LoanState>,
}

#[derive(Default)]
struct LoanState {
    borrowed: u64,
    /// Unwritten records with space.
    appending: usize,
}

impl Loan {
    /// Returns a loan for a log with a limit; bytes in use beyond it are borrowed at once.
    pub fn new(borrower: &Log, own_max: u64, lender: WeakLog) -> Self {
        let loan = Self { lender, own_max, state: Mutex::default() };
        let beyond = borrower.usage().bytes.saturating_sub(own_max);
        if let Some(lender) = loan.lender.upgrade() {
            lender.0.queue.lend_used(beyond);
            loan.set(&mut loan.state.lock(), borrower, beyond);
        }
        loan
    }

    /// Appends a record in borrowed space.
    ///
    /// # Errors
    /// Those of [`Log::append`]; [`AppendError::Full`] also if the lender has no space.
    pub async fn append(
        &self,
        borrower: &Log,
        head: RecordHead,
        payload: bytes::Bytes,
    ) -> Result<Claim, AppendError> {
        // The record may begin a file.
        let bytes = record_bytes(payload.len()) + SEGMENT_HEAD_BYTES as u64;
        let lender = self.lender.upgrade().ok_or(AppendError::Closed)?;
        if !lender.0.queue.lend(bytes) {
            return Err(AppendError::Full);
        }
        {
            let mut state = self.state.lock();
            let borrowed = state.borrowed + bytes;
            self.set(&mut state, borrower, borrowed);
            state.appending += 1;
        }
        let _appending = Appending(self);
        borrower.append(head, payload).await
    }

    /// Gives back borrowed space that the borrower no longer needs.
    pub fn give_back(&self, borrower: &Log) {
        let mut state = self.state.lock();
        if state.borrowed == 0 || state.appending > 0 {
            return;
        }
        let usage = borrower.usage();
        // Segments without claims are removed anyway, except a small rest of one file.
        let used = match borrower.source().lowest() {
            Some(_) => usage.bytes + usage.waiting,
            None => 0,
        };
        let needed = used.saturating_sub(self.own_max);
        let Some(free) = state.borrowed.checked_sub(needed).filter(|free| *free > 0) else {
            return;
        };
        if let Some(lender) = self.lender.upgrade() {
            lender.0.queue.take_back(free);
        }
        self.set(&mut state, borrower, needed);
    }

    fn set(&self, state: &mut LoanState, borrower: &Log, borrowed: u64) {
        state.borrowed = borrowed;
        let limit = borrower.0.queue.limits.size_max;
        borrower.0.queue.set_borrowed((self.own_max + borrowed).saturating_sub(limit));
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(lender) = self.lender.upgrade() {
            lender.0.queue.take_back(self.state.lock().borrowed);
        }
    }
}

/// Guard of an unwritten record with space.
struct Appending<'a>(&'a Loan);

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        self.0.state.lock().appending -= 1;
    }
}
