//! Texts made from the command line itself: completion scripts and manual pages.

pub(super) mod completions;
pub(super) mod manual;
pub(super) mod pages;
