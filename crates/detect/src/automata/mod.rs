//! Lazy automata: what they share over all expressions.
//!
//! The states that an automaton built for the texts it has read are kept in a pool of
//! [caches](cache_pool). The [`slim()`] form of an expression takes fewer of them.

pub(crate) mod cache_pool;
mod slim;

pub(crate) use self::slim::slim;
