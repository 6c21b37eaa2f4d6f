//! The rules of the house, held against the source.
