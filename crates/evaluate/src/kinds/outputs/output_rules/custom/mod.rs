//! Custom rules of users.
//!
//! In go their settings, out come rules, or an error at load with place and remedy. The default
//! behaviour stands in [`own`], the source's in `iris`.

pub(super) mod own;
