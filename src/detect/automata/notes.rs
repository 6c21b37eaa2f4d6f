//! What automata have worked out of texts so far, kept for the next text; and what they and their
//! expressions take, counted.
//!
//! A lazy automaton notes each of its states that a text leads to, some megabytes where a stranger
//! writes the text, and there are hundreds of automata. So what they noted is kept within what
//! expressions leave of one [share]. It lies on shelves that all threads take from: whoever reads
//! with an automaton has its notes alone, and brings them back. Where there is no room for more,
//! one shelf after the other is looked through until there is: notes that nobody has read with
//! since the last look are forgotten, and the share counts them. They are worked out again.

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

/// Notes by automaton; of one that several threads read with at once, several.
#[derive(Default)]
struct Shelf(HashMap<u32, Vec<ShelvedNotes>>);

struct ShelvedNotes {
    notes: AutomatonNotes,
    bytes: usize,
    /// Whether nobody has read with them since they were last looked at.
    is_idle: bool,
}

impl Shelf {
    fn take(&mut self, owner: u32) -> Option<ShelvedNotes> {
        self.0.get_mut(&owner)?.pop()
    }

    fn add(&mut self, owner: u32, notes: AutomatonNotes, bytes: usize) {
        self.0.entry(owner).or_default().push(ShelvedNotes { notes, bytes, is_idle: false });
    }

    /// Takes out what is idle; what stays counts as idle until somebody reads with it.
    fn take_idle(&mut self) -> Vec<ShelvedNotes> {
        let mut idle = Vec::new();
        self.0.retain(|_, all| {
            idle.extend(all.extract_if(.., |notes| std::mem::replace(&mut notes.is_idle, true)));
            !all.is_empty()
        });
        idle
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
        let shelved = self.shelf(owner as usize).take(owner)?;
        self.share.give_back(shelved.bytes);
        Some(shelved.notes)
    }

    fn keep(&self, owner: u32, notes: AutomatonNotes) {
        let bytes = notes.bytes();
        // The second time around nothing is left that somebody has read with meanwhile.
        for _ in 0..2 * SHELVES {
            if self.share.try_take(bytes) {
                return self.shelf(owner as usize).add(owner, notes, bytes);
            }
            let idle = self.shelf(self.next.fetch_add(1, Ordering::Relaxed)).take_idle();
            self.share.count_forgotten(self.drop_all(idle));
        }
        self.share.count_forgotten(1);
    }

    /// Drops notes; gives how many they were.
    fn drop_all(&self, notes: impl IntoIterator<Item = ShelvedNotes>) -> usize {
        notes.into_iter().map(|shelved| self.share.give_back(shelved.bytes)).count()
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
        let shelf = std::mem::take(&mut *NOTES.shelf(number));
        NOTES.drop_all(shelf.0.into_values().flatten());
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
    fn notes_stay_within_their_share_and_some_are_forgotten_for_others() {
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
    fn notes_that_are_read_with_outlive_those_that_are_not() {
        let each = notes().bytes();
        let share = Share::new("x", each * 8);
        let kept = KeptNotes::new(Arc::clone(&share));
        (0..8).for_each(|owner| kept.keep(owner, notes()));
        for owner in 8..80 {
            kept.keep(owner, notes());
            let often = [3, 5].map(|owner| kept.take(owner));
            for (owner, notes) in [3, 5].into_iter().zip(often) {
                kept.keep(owner, notes.unwrap());
            }
        }
        assert_eq!((share.held(), share.forgotten()), (each * 8, 72));
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
