//! What the integration tests share.

pub(crate) mod collector;
pub(crate) mod evaluations;
pub(crate) mod fake_backend;
pub(crate) mod intake;
pub(crate) mod program;
pub(crate) mod spans;
