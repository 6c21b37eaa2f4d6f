//! Evaluations out.
