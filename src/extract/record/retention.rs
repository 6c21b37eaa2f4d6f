//! What becomes of a span: worked out once for each path of keys and the statements that hold.

use super::attributes::Found;
use super::key_trie::Meaning;
use super::layout::{CONDITIONS, put_header};
use super::tool_messages::{MessageField, MessagePart};
use crate::extract::table::bit_set::Bits;
use crate::extract::table::{Kept, Matching, Table};
use crate::otlp::any_value::key_value;

/// Most recipes that are remembered.
const RECIPES_MAX: usize = 1024;
/// Most recipes that are remembered for one path.
const PER_PATH_MAX: usize = 8;
const NONE: u32 = u32::MAX;

/// What to do with spans of certain keys of which certain statements hold.
#[derive(Default)]
pub(in crate::extract) struct Recipe {
    bits: Bits,
    /// Another one for the same keys.
    other: u32,
    /// The stated conditions that hold, as a field of a record's facts.
    pub(in crate::extract) conditions: Vec<u8>,
    pub(in crate::extract) keep: Kept,
    pub(in crate::extract) nature: Nature,
    /// The attributes to keep, by their place among those that were read.
    pub(in crate::extract) attributes: Vec<KeptAttribute>,
    /// The places of attributes without a slot that are kept.
    pub(in crate::extract) others: Vec<u32>,
    /// The places of those that are kept if they belong to a message about tools.
    pub(in crate::extract) messages: Vec<MessagePart>,
}

/// An attribute to keep.
#[derive(Clone, Copy)]
pub(in crate::extract) struct KeptAttribute {
    pub(in crate::extract) place: u32,
    pub(in crate::extract) slot: u16,
    /// Only if its text speaks of tools.
    pub(in crate::extract) tools_only: bool,
}

/// What the conditions that hold say about a span.
#[derive(Clone, Copy, Default)]
pub(in crate::extract) struct Nature {
    pub(in crate::extract) tool: bool,
    pub(in crate::extract) agent: bool,
    pub(in crate::extract) pending: bool,
    pub(in crate::extract) log: bool,
}

/// The recipes of the paths so far.
#[derive(Default)]
pub(in crate::extract) struct Recipes {
    known: Vec<Recipe>,
    /// That of a span that has left the paths, or that found no room.
    once: Recipe,
    /// How many spans on paths found no room.
    missed: u32,
}

impl Recipes {
    pub(in crate::extract) fn is_full(&self) -> bool {
        self.known.len() >= RECIPES_MAX
    }

    pub(in crate::extract) fn clear(&mut self) {
        self.known.clear();
        self.missed = 0;
    }

    /// How many spans on paths found no room: odd ones may have taken that of common ones.
    pub(in crate::extract) fn missed(&self) -> u32 {
        self.missed
    }

    /// The recipe among those that begin with `first`; a new one becomes the first.
    #[inline]
    pub(in crate::extract) fn of(
        &mut self,
        table: &Table,
        matching: &Matching,
        found: &Found<'_>,
        first: &mut u32,
    ) -> &Recipe {
        let mut at = *first;
        for _ in 0..PER_PATH_MAX {
            match self.known.get(at as usize) {
                Some(recipe) if recipe.bits == *matching.bits() => {
                    return &self.known[at as usize];
                }
                Some(recipe) => at = recipe.other,
                None if self.is_full() => break,
                None => {
                    let recipe = Recipe { other: *first, ..Recipe::new(table, matching, found) };
                    *first = self.known.len() as u32;
                    self.known.push(recipe);
                    return &self.known[*first as usize];
                }
            }
        }
        self.missed = self.missed.saturating_add(1);
        self.once(table, matching, found)
    }

    /// A recipe that is not remembered.
    #[cold]
    pub(in crate::extract) fn once(
        &mut self,
        table: &Table,
        matching: &Matching,
        found: &Found<'_>,
    ) -> &Recipe {
        self.once = Recipe::new(table, matching, found);
        &self.once
    }
}

impl Recipe {
    fn new(table: &Table, matching: &Matching, found: &Found<'_>) -> Self {
        let conditions = matching.finish(table);
        let mut recipe = Self {
            bits: *matching.bits(),
            other: NONE,
            keep: table.base.clone(),
            ..Self::default()
        };
        let means = || conditions.iter().filter_map(|id| Some((*id, table.compiled(*id)?)));
        let stated = means().filter(|(_, means)| means.stated).count();
        if stated > 0 {
            put_header(&mut recipe.conditions, CONDITIONS, 2 * stated);
        }
        for (id, means) in means() {
            recipe.keep.extend(&means.keep);
            recipe.nature.tool |= means.tool;
            recipe.nature.agent |= means.agent;
            recipe.nature.pending |= means.pending;
            recipe.nature.log |= means.log;
            if means.stated {
                recipe.conditions.extend_from_slice(&id.to_le_bytes());
            }
        }
        recipe.list(table, found);
        recipe
    }

    /// Lists the attributes that are kept.
    fn list(&mut self, table: &Table, found: &Found<'_>) {
        let (keep, mut messages) = (&self.keep, Vec::new());
        for (place, (meaning, entry)) in (0..).zip(found.meanings()) {
            match meaning {
                Meaning::Slot(slot) | Meaning::Stated(slot) => {
                    let tools_only = !keep.slots.has(slot);
                    if !tools_only || keep.tools_only.has(slot) {
                        self.attributes.push(KeptAttribute { place, slot, tools_only });
                    }
                }
                Meaning::Behind => {
                    let key = key_value(entry).unwrap_or_default().0;
                    let prefixes = table.prefixes.of(key) & keep.prefixes;
                    if prefixes & !table.tools_only_prefixes != 0 {
                        self.others.push(place);
                    } else if prefixes != 0 {
                        let prefix = prefixes.trailing_zeros() as u16;
                        let field = MessageField::new(prefix, table.prefixes.tail(prefix, key));
                        messages.push((place, field));
                    }
                }
                Meaning::Unread => {}
            }
        }
        self.messages = MessagePart::all(&messages);
    }
}
