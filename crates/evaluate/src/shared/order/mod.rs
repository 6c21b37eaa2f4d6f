//! Longest common subsequences: the part of an expected order that was kept.
//!
//! [`length`] serves where calls are told apart by words alone: the positions of each word are
//! known beforehand ([`Masks`]), so a call costs one step for 64 expected positions.
//! [`length_where`] asks for each pair, under any relation, and runs the same steps. [`OrderTable`]
//! also tells which positions were kept, and [`weight()`] adds up what each pair is worth.

mod bits;
pub(crate) mod grouped;
mod weight;

pub(crate) use bits::{CELLS_MAX, Mask, Masks, OrderTable, TableTooLarge, length, length_where};
pub(crate) use weight::weight;
