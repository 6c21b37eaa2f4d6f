//! Judged kinds: what a trajectory is shown as to a judge, what is asked, and what answers come to.
//!
//! A judged kind is a list of numbered statements about a trajectory, each answered yes, no,
//! unclear or not applicable. Everything here is pure; the lane that asks the judges is a stage of
//! its own.

pub mod labelled;
pub mod operator;
