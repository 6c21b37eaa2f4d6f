//! What automata have worked out of texts so far, kept for the next text; and what they and their
//! expressions take, counted.
//!
//! A lazy automaton notes each of its states that a text leads to, some megabytes where a stranger
//! writes the text, and there are hundreds of automata. So what they noted is kept within what
//! expressions leave of one [share]. It lies on shelves that all threads take from: whoever reads
//! with an automaton has its notes alone, and brings them back. Where there is no room for more,
//! one shelf after the other is cleared until there is, and the share counts what was on them: that
//! is worked out again.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use regex_automata::hybrid::dfa;
use regex_automata::meta;

use crate::detect::limits::RULES_BYTES_MAX;
use crate::model::Share;

/// Shelves, each with a lock of its own: more than there are threads, so that they seldom meet, and
/// so many that what is forgotten at once is little.
const SHELVES: usize = 64;

static SHARE: LazyLock<Arc<Share>> = LazyLock::new(|| Share::new("rules", RULES_BYTES_MAX));
static NOTES: LazyLock<KeptNotes> = LazyLock::new(|| KeptNotes::new(share()));

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

/// Notes that nobody reads with now.
struct KeptNotes {
    share: Arc<Share>,
    shelves: [Mutex<Shelf>; SHELVES],
    /// The shelf that is cleared next.
    next: AtomicUsize,
}

/// Notes by automaton, with their bytes; of one that several threads read with at once, several.
#[derive(Default)]
struct Shelf(HashMap<u32, Vec<(AutomatonNotes, usize)>>);

impl Shelf {
    fn take(&mut self, owner: u32) -> Option<(AutomatonNotes, usize)> {
        self.0.get_mut(&owner)?.pop()
    }

    fn add(&mut self, owner: u32, notes: AutomatonNotes, bytes: usize) {
        self.0.entry(owner).or_default().push((notes, bytes));
    }
}

impl KeptNotes {
    fn new(share: Arc<Share>) -> Self {
        let shelves = std::array::from_fn(|_| Mutex::default());
        Self { share, shelves, next: AtomicUsize::new(0) }
    }

    /// The shelf of that number. Whoever panicked at it has left it whole.
    fn shelf(&self, number: usize) -> MutexGuard<'_, Shelf> {
        self.shelves[number % SHELVES].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, owner: u32) -> Option<AutomatonNotes> {
        let (notes, bytes) = self.shelf(owner as usize).take(owner)?;
        self.share.give_back(bytes);
        Some(notes)
    }

    fn keep(&self, owner: u32, notes: AutomatonNotes) {
        let bytes = notes.bytes();
        for _ in 0..SHELVES {
            if self.share.try_take(bytes) {
                return self.shelf(owner as usize).add(owner, notes, bytes);
            }
            let cleared = self.clear(self.next.fetch_add(1, Ordering::Relaxed));
            self.share.count_forgotten(cleared);
        }
        self.share.count_forgotten(1);
    }

    /// Forgets what is on one shelf; gives how many notes that were.
    fn clear(&self, number: usize) -> usize {
        let cleared = std::mem::take(&mut *self.shelf(number));
        let notes = cleared.0.into_values().flatten();
        notes.map(|(_, bytes)| self.share.give_back(bytes)).count()
    }
}

/// A number for an automaton, that no other has.
pub(in crate::detect) fn owner() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The notes of an automaton, if some are kept.
pub(in crate::detect) fn take(owner: u32) -> Option<AutomatonNotes> {
    NOTES.take(owner)
}

/// Keeps the notes of an automaton.
pub(in crate::detect) fn keep(owner: u32, notes: AutomatonNotes) {
    NOTES.keep(owner, notes);
}

/// Forgets all notes, for when there is nothing to read.
pub(in crate::detect) fn forget() {
    (0..SHELVES).for_each(|number| {
        NOTES.clear(number);
    });
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
    fn notes_stay_within_their_share_and_one_shelf_is_forgotten_for_another() {
        let each = notes().bytes();
        let share = Share::new("x", each * 10);
        let kept = KeptNotes::new(Arc::clone(&share));
        share.take(each * 2);
        for owner in 0..8 {
            kept.keep(owner, notes());
            assert_eq!(share.held(), each * (owner as usize + 3));
        }
        assert!(kept.take(3).is_some() && kept.take(3).is_none());
        assert_eq!(share.held(), each * 9);
        kept.keep(3, notes());
        kept.keep(3, notes());
        assert_eq!((share.held(), share.forgotten()), (each * 10, 1), "room made of the first");
        assert!(kept.take(0).is_none() && kept.take(1).is_some());
        assert!(kept.take(3).is_some() && kept.take(3).is_some(), "two read with it at once");
    }

    #[test]
    fn notes_that_never_fit_are_not_kept() {
        let share = Share::new("x", notes().bytes() - 1);
        let kept = KeptNotes::new(Arc::clone(&share));
        kept.keep(1, notes());
        assert!(kept.take(1).is_none());
        assert_eq!((share.held(), share.forgotten()), (0, 1));
    }
}
