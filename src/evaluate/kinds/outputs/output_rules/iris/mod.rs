//! `compat: iris`: rules, custom rules and texts as Iris has them, to the letter.
//! Source: `iris-eval/mcp-server` 0.4.2.

pub(super) mod custom;
pub(super) mod js;
pub(super) mod rules;
