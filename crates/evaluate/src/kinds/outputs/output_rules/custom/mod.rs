//! Custom rules of users.
//!
//! The input is their settings, the output rules, or an error at load with its location and remedy.
//! [`own`] has the default behaviour, `iris` the source's.

pub(super) mod own;
