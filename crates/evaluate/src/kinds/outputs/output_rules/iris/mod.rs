//! `compat: iris`: rules, custom rules and texts treated exactly as in Iris. Source:
//! `iris-eval/mcp-server` 0.4.2.

pub(super) mod custom;
pub(super) mod js;
pub(super) mod rules;
