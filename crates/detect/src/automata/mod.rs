//! Lazy automata: memory shared by all expressions.
//!
//! The states that automata compute for texts are kept in a pool of [caches](cache_pool). The
//! [`slim()`] form of an expression needs fewer of them.

pub(crate) mod cache_pool;
mod slim;

pub(crate) use self::slim::slim;
