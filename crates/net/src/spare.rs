//! Spare file descriptor for listeners that run out of descriptors.
//!
//! A listener without one can neither accept nor refuse a connection, and wakes in a loop.

use std::fs::File;

/// Descriptor that is released when a listener has no other, and acquired again as soon as
/// possible.
#[derive(Debug)]
pub struct SpareDescriptor(Option<File>);

impl SpareDescriptor {
    /// Acquires a descriptor, if one is free.
    #[expect(clippy::new_without_default, reason = "it takes from the system")]
    pub fn new() -> Self {
        Self(nothing())
    }

    /// Releases it; false if it is already released.
    pub fn release(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Acquires one again, if one is free.
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
    fn released_descriptor_is_restored() {
        let mut spare = SpareDescriptor::new();
        assert_eq!([spare.release(), spare.release()], [true, false]);
        spare.restore();
        assert!(spare.release());
    }
}
