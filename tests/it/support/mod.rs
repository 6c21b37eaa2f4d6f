//! What the integration tests share.

pub(crate) mod evaluations;
pub(crate) mod fake_backend;
pub(crate) mod intake;
