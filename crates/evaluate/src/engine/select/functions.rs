//! Functions in an expression: calls of undeclared ones are config errors, found before any trace.

use std::sync::Arc;

use cel::{Context, Env, ExecutionError};

use super::parsed;

/// Returns true unless a call of this name always fails, as no function or method is declared.
/// Operators have names that no call can have.
pub(super) fn is_function(environment: &Arc<Env>, name: &str) -> bool {
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_known = |call: String| {
        let Ok(program) = environment.compile(&call) else { return true };
        let given = program.execute(&Context::with_env(Arc::clone(environment)));
        !matches!(given, Err(ExecutionError::UndeclaredReference(_)))
    };
    !is_word
        || !name.starts_with(|c: char| c.is_ascii_alphabetic())
        || name == parsed::FUNCTION
        || [format!("{name}()"), format!("[].{name}()")].into_iter().any(is_known)
}
