//! Spare file descriptor: held, so that it can be had when there is no other.
//!
//! A listener without one can neither take a connection nor refuse it, and wakes for it all the
//! time.

use std::fs::File;

/// Descriptor that is released when a listener has no other, and taken back as soon as one is free.
#[derive(Debug)]
pub struct SpareDescriptor(Option<File>);

impl SpareDescriptor {
    /// Takes a descriptor, if there is one.
    #[expect(clippy::new_without_default, reason = "it takes from the system")]
    pub fn new() -> Self {
        Self(nothing())
    }

    /// Releases it; false if it was released before.
    pub fn release(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Takes one back, if there is one again.
    pub fn restore(&mut self) {
        if self.0.is_none() {
            self.0 = nothing();
        }
    }
}

fn nothing() -> Option<File> {
    File::open("/dev/null").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_released_is_had_again() {
        let mut spare = SpareDescriptor::new();
        assert_eq!([spare.release(), spare.release()], [true, false]);
        spare.restore();
        assert!(spare.release());
    }
}
