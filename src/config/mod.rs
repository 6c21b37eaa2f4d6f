//! The config as written, and the plan it resolves to.
