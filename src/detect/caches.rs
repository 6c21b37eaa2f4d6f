//! What automata have worked out of texts so far, kept for the next text.
//!
//! A lazy automaton notes each of its states that a text leads to, some megabytes where a stranger
//! writes the text, and there are hundreds of automata. So a thread keeps what they noted within
//! one limit, and forgets all of it where that is reached: then it is worked out again.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashMap;
use regex_automata::hybrid::dfa;
use regex_automata::meta;

use super::limits::CACHES_BYTES_MAX;

/// The notes of one automaton.
pub(in crate::detect) enum AutomatonNotes {
    /// Of an expression.
    Expression(Box<meta::Cache>),
    /// Of an automaton that is held to a place.
    Placed(Box<dfa::Cache>),
}

impl AutomatonNotes {
    fn bytes(&self) -> usize {
        match self {
            Self::Expression(cache) => cache.memory_usage(),
            Self::Placed(cache) => cache.memory_usage(),
        }
    }
}

/// The notes that a thread keeps.
#[derive(Default)]
struct KeptNotes {
    by_owner: HashMap<u32, (AutomatonNotes, usize)>,
    bytes: usize,
}

impl KeptNotes {
    fn take(&mut self, owner: u32) -> Option<AutomatonNotes> {
        let (notes, bytes) = self.by_owner.remove(&owner)?;
        self.bytes -= bytes;
        Some(notes)
    }

    fn keep(&mut self, owner: u32, notes: AutomatonNotes) {
        let bytes = notes.bytes();
        if self.bytes + bytes > CACHES_BYTES_MAX {
            self.by_owner.clear();
            self.bytes = 0;
        }
        if bytes > CACHES_BYTES_MAX {
            return;
        }
        self.bytes += bytes;
        if let Some((_, before)) = self.by_owner.insert(owner, (notes, bytes)) {
            self.bytes -= before;
        }
    }
}

thread_local! {
    static NOTES: RefCell<KeptNotes> = RefCell::default();
}

/// A number for an automaton, that no other has.
pub(in crate::detect) fn owner() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The notes of an automaton, if this thread has kept some.
pub(in crate::detect) fn take(owner: u32) -> Option<AutomatonNotes> {
    NOTES.with_borrow_mut(|kept| kept.take(owner))
}

/// Keeps the notes of an automaton.
pub(in crate::detect) fn keep(owner: u32, notes: AutomatonNotes) {
    // A thread that ends has nowhere to keep them, and no use for them.
    let _ = NOTES.try_with(|kept| kept.borrow_mut().keep(owner, notes));
}

#[cfg(test)]
mod tests {
    use regex_automata::hybrid::dfa::DFA;

    use super::*;

    #[test]
    fn notes_stay_within_their_limit_and_are_forgotten_all_at_once() {
        let dfa = DFA::builder().configure(DFA::config()).build("[a-z]{1,20} x").unwrap();
        let notes = || AutomatonNotes::Placed(Box::new(dfa.create_cache()));
        let (each, mut kept) = (notes().bytes(), KeptNotes::default());
        let most = CACHES_BYTES_MAX / each;
        for owner in 0..most as u32 {
            kept.keep(owner, notes());
            assert_eq!(kept.bytes, each * (owner as usize + 1));
        }
        assert!(kept.take(3).is_some() && kept.take(3).is_none());
        assert_eq!(kept.bytes, each * (most - 1));
        kept.keep(3, notes());
        kept.keep(3, notes());
        assert_eq!((kept.by_owner.len(), kept.bytes), (1, each), "one more than there is room for");
    }
}
