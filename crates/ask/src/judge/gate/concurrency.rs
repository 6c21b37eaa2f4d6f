//! Adaptive concurrency limit of a judge: additive increase, multiplicative decrease.

/// Replies without a 429 after which the limit grows by one.
const GOOD_RUN: u32 = 20;

/// Concurrency limit: halved by a 429, raised by one after [`GOOD_RUN`] replies.
#[derive(Clone, Debug)]
pub(super) struct Concurrency {
    most: u32,
    now: u32,
    under_way: u32,
    good: u32,
}

impl Concurrency {
    pub(super) fn new(most: u32) -> Self {
        Self { most, now: most, under_way: 0, good: 0 }
    }

    /// Changes the maximum, and discards the adaptation.
    pub(super) fn change(&mut self, most: u32) {
        if self.most != most {
            (self.most, self.now, self.good) = (most, most, 0);
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.under_way < self.now
    }

    pub(super) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// Notes the end of a request; `is_good` is `None` if it reveals nothing about the load.
    pub(super) fn end(&mut self, is_good: Option<bool>) {
        self.under_way = self.under_way.saturating_sub(1);
        match is_good {
            Some(true) => {
                self.good += 1;
                if self.good >= GOOD_RUN {
                    self.good = 0;
                    self.now = (self.now + 1).min(self.most);
                }
            }
            Some(false) => {
                self.good = 0;
                self.now = (self.now / 2).max(1);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrency_is_halved_and_grows_back() {
        let mut requests = Concurrency::new(4);
        requests.begin();
        requests.begin();
        requests.end(Some(false));
        assert_eq!((requests.now, requests.has_room()), (2, true));
        requests.end(Some(false));
        requests.end(Some(false));
        assert_eq!(requests.now, 1);
        (0..GOOD_RUN * 5).for_each(|_| requests.end(Some(true)));
        assert_eq!(requests.now, 4);
    }
}
