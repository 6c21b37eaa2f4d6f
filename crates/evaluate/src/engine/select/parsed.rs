//! JSON texts in attributes: `json(attributes["metadata"]).case`, and equally
//! `attributes["metadata"].case`.
//!
//! Both are rewritten at compilation: the map is replaced by `@json.attributes.metadata`, a
//! variable that no expression can name, with a map of the key to its parsed text. The map is
//! empty, so that the key is missing, for invalid JSON, a text over [`BYTES_MAX`], or nesting
//! deeper than [`DEPTH_MAX`]. Each text is parsed once per trajectory.

use std::sync::OnceLock;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::{CelMap, CelString};

use super::cel_map;
use crate::engine::counted::parts_of;
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::{Value, json};

/// Name of the function.
pub(super) const FUNCTION: &str = "json";
/// Longest parsed JSON text, bytes.
const BYTES_MAX: usize = 64 << 10;
/// Deepest parsed nesting.
const DEPTH_MAX: usize = 32;
/// Bytes of a JSON text per step.
pub(super) const BYTES_PER_STEP: usize = 4;
/// Maps with values that may be JSON.
const MAPS: [&str; 2] = ["attributes", "resource"];

/// Attribute read as JSON by an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JsonPlace<'n> {
    /// True for the resource's, false for the root span's.
    pub(super) of_resource: bool,
    /// Key of the attribute.
    pub(super) key: &'n str,
}

impl<'n> JsonPlace<'n> {
    /// Parses a variable written by [`rewrite`]; `None` for others.
    pub(super) fn parse(variable: &'n str) -> Option<Self> {
        let (map, key) = variable.strip_prefix("@json.")?.split_once('.')?;
        Some(Self { of_resource: map == MAPS[1], key })
    }
}

/// Rewrites JSON reads; fails if `json` is applied to something other than an attribute.
pub(super) fn rewrite(expression: &mut IdedExpr) -> Result<(), ()> {
    match &mut expression.expr {
        Expr::Call(call) if call.func_name == FUNCTION && call.target.is_none() => {
            let [argument] = call.args.as_mut_slice() else { return Err(()) };
            let mut argument = std::mem::take(argument);
            let is_read = read_as_json(&mut argument);
            *expression = argument;
            if is_read { Ok(()) } else { Err(()) }
        }
        Expr::Call(call) if call.func_name == operators::INDEX && call.target.is_none() => {
            let is_read = call.args.first_mut().is_some_and(read_as_json);
            call.args.iter_mut().skip(usize::from(is_read)).try_for_each(rewrite)
        }
        Expr::Select(select) => {
            if read_as_json(&mut select.operand) {
                Ok(())
            } else {
                rewrite(&mut select.operand)
            }
        }
        other => parts_of(other).into_iter().try_for_each(rewrite),
    }
}

/// Makes `attributes["key"]` or `attributes.key` read the key's JSON; false if the expression is
/// neither.
fn read_as_json(expression: &mut IdedExpr) -> bool {
    let (map, key) = match &expression.expr {
        Expr::Call(call) if call.func_name == operators::INDEX => {
            let [map, key] = call.args.as_slice() else { return false };
            let Expr::Literal(LiteralValue::String(key)) = &key.expr else { return false };
            (map, key.inner().to_owned())
        }
        Expr::Select(select) if !select.test => (&*select.operand, select.field.clone()),
        _ => return false,
    };
    let Expr::Ident(name) = &map.expr else { return false };
    if !MAPS.contains(&name.as_str()) {
        return false;
    }
    let new = |expr| IdedExpr { id: expression.id, expr };
    let map = new(Expr::Ident(format!("@json.{name}.{key}")));
    let key = new(Expr::Literal(LiteralValue::String(key.into())));
    // Always an index: the interpreter would read following fields as part of the name.
    let func_name = operators::INDEX.to_owned();
    expression.expr = Expr::Call(CallExpr { func_name, target: None, args: vec![map, key] });
    true
}

/// Parsed texts by variable, in order of first use. The list never moves an element that is
/// borrowed; the config's expressions bound its length.
#[derive(Default)]
pub(super) struct ParsedTexts<'a>(OnceLock<Box<ParsedText<'a>>>);

struct ParsedText<'a> {
    variable: String,
    map: CelMap<'a>,
    next: ParsedTexts<'a>,
}

impl<'a> ParsedTexts<'a> {
    /// Returns the map of a variable, if parsed before.
    pub(super) fn get(&self, variable: &str) -> Option<&CelMap<'a>> {
        let mut at = self.0.get();
        while let Some(known) = at {
            if known.variable == variable {
                return Some(&known.map);
            }
            at = known.next.0.get();
        }
        None
    }

    /// Returns the map of a variable, parsed on first use.
    pub(super) fn get_or_make(
        &self,
        variable: &str,
        key: &str,
        value: Option<AnyValue<'a>>,
    ) -> &CelMap<'a> {
        let mut at = self;
        let mut value = value;
        loop {
            let known = at.0.get_or_init(|| {
                let held = value.take().and_then(held).into_iter();
                let map = cel_map(held.map(|held| (CelString::from(key.to_owned()), held)));
                let next = ParsedTexts::default();
                Box::new(ParsedText { variable: variable.to_owned(), map, next })
            });
            if known.variable == variable {
                return &known.map;
            }
            at = &known.next;
        }
    }
}

/// Returns the value of an attribute: a text's JSON, or a value other than text.
fn held(value: AnyValue<'_>) -> Option<Value<'_>> {
    match value {
        AnyValue::String(text) => json_within_limits(text),
        other => other.to_value().ok(),
    }
}

/// Parses a JSON text within the limits.
pub(in crate::engine) fn json_within_limits(text: &str) -> Option<Value<'_>> {
    let is_short = text.len() <= BYTES_MAX;
    let read = is_short.then(|| json::parse(text).ok()).flatten();
    read.filter(|value| is_within(value, DEPTH_MAX))
}

fn is_within(value: &Value<'_>, levels: usize) -> bool {
    match value {
        Value::List(_) | Value::Map(_) if levels == 0 => false,
        Value::List(items) => items.iter().all(|item| is_within(item, levels - 1)),
        Value::Map(entries) => entries.iter().all(|(_, item)| is_within(item, levels - 1)),
        _ => true,
    }
}
