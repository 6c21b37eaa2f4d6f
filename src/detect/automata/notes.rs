//! What automata have worked out of texts so far, kept for the next text; and what they and their
//! expressions take, counted.
//!
//! A lazy automaton notes each of its states that a text leads to, some megabytes where a stranger
//! writes the text, and there are hundreds of automata. So all threads keep what they noted within
//! what expressions leave of one [share], each within its part of that. A thread forgets all of its
//! notes where there is no room for more: then it is worked out again.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use regex_automata::hybrid::dfa;
use regex_automata::meta;

use crate::detect::limits::RULES_BYTES_MAX;
use crate::model::Share;

static SHARE: LazyLock<Arc<Share>> = LazyLock::new(|| Share::new("rules", RULES_BYTES_MAX));

/// Threads that keep notes.
static KEEPERS: AtomicUsize = AtomicUsize::new(0);

/// What compiled expressions and the notes of their automata take, of the whole process.
pub(in crate::detect) fn share() -> Arc<Share> {
    Arc::clone(&SHARE)
}

/// Bytes of something compiled, counted as long as it is there.
pub(in crate::detect) struct CompiledBytes(usize);

impl CompiledBytes {
    pub(in crate::detect) fn new(bytes: usize) -> Self {
        SHARE.take(bytes);
        Self(bytes)
    }
}

impl Drop for CompiledBytes {
    fn drop(&mut self) {
        SHARE.give_back(self.0);
    }
}

/// The notes of one automaton.
pub(in crate::detect) enum AutomatonNotes {
    /// Of one that reads one way.
    Automaton(Box<dfa::Cache>),
    /// Of an expression that takes more than that.
    Expression(Box<meta::Cache>),
}

impl AutomatonNotes {
    fn bytes(&self) -> usize {
        match self {
            Self::Automaton(cache) => cache.memory_usage(),
            Self::Expression(cache) => cache.memory_usage(),
        }
    }
}

/// The notes that a thread keeps.
struct KeptNotes {
    share: Arc<Share>,
    keepers: &'static AtomicUsize,
    by_owner: HashMap<u32, (AutomatonNotes, usize)>,
    bytes: usize,
}

impl KeptNotes {
    fn new(share: Arc<Share>, keepers: &'static AtomicUsize) -> Self {
        keepers.fetch_add(1, Ordering::Relaxed);
        Self { share, keepers, by_owner: HashMap::new(), bytes: 0 }
    }

    /// Most that this thread keeps: each has as much as the others.
    fn most(&self) -> usize {
        self.share.limit() / self.keepers.load(Ordering::Relaxed).max(1)
    }

    fn take(&mut self, owner: u32) -> Option<AutomatonNotes> {
        let (notes, bytes) = self.by_owner.remove(&owner)?;
        self.let_go(bytes);
        Some(notes)
    }

    fn let_go(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.share.give_back(bytes);
    }

    fn keep(&mut self, owner: u32, notes: AutomatonNotes) {
        let bytes = notes.bytes();
        if !self.has_room(bytes) {
            self.make_room();
            if !self.has_room(bytes) {
                self.share.count_forgotten(1);
                return;
            }
        }
        self.share.take(bytes);
        self.bytes += bytes;
        if let Some((_, before)) = self.by_owner.insert(owner, (notes, bytes)) {
            self.let_go(before);
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.most() && bytes <= self.share.left()
    }

    fn forget(&mut self) {
        self.by_owner.clear();
        self.let_go(self.bytes);
    }

    /// Forgets all for want of room.
    fn make_room(&mut self) {
        self.share.count_forgotten(self.by_owner.len());
        self.forget();
    }
}

impl Drop for KeptNotes {
    fn drop(&mut self) {
        self.forget();
        self.keepers.fetch_sub(1, Ordering::Relaxed);
    }
}

thread_local! {
    static NOTES: RefCell<KeptNotes> = RefCell::new(KeptNotes::new(share(), &KEEPERS));
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

    fn notes() -> AutomatonNotes {
        let dfa = DFA::builder().configure(DFA::config()).build("[a-z]{1,20} x").unwrap();
        AutomatonNotes::Automaton(Box::new(dfa.create_cache()))
    }

    #[test]
    fn notes_stay_within_their_share_and_are_forgotten_all_at_once() {
        static ONE: AtomicUsize = AtomicUsize::new(0);
        let each = notes().bytes();
        let share = Share::new("x", each * 10);
        let mut kept = KeptNotes::new(Arc::clone(&share), &ONE);
        share.take(each * 2);
        for owner in 0..8 {
            kept.keep(owner, notes());
            assert_eq!(share.held(), each * (owner as usize + 3));
        }
        assert!(kept.take(3).is_some() && kept.take(3).is_none());
        assert_eq!(share.held(), each * 9);
        kept.keep(3, notes());
        kept.keep(3, notes());
        assert_eq!((kept.by_owner.len(), share.held()), (1, each * 3), "no room for one more");
        assert_eq!(share.forgotten(), 8);
        drop(kept);
        assert_eq!((share.held(), ONE.load(Ordering::Relaxed)), (each * 2, 0));
    }

    #[test]
    fn one_thread_leaves_room_for_another() {
        static TWO: AtomicUsize = AtomicUsize::new(0);
        let each = notes().bytes();
        let share = Share::new("x", each * 10);
        let [mut one, mut other] = [(); 2].map(|()| KeptNotes::new(Arc::clone(&share), &TWO));
        (0..9).for_each(|owner| one.keep(owner, notes()));
        assert_eq!(one.bytes, each * 4, "forgotten at the sixth");
        (0..5).for_each(|owner| other.keep(owner, notes()));
        assert_eq!((other.bytes, share.held()), (each * 5, each * 9));
    }
}
