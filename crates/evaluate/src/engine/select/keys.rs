//! Keys that an expression looks up in the maps of a trajectory, for readers with a part of them.

use cel::IdedExpr;
use cel::common::ast::{Expr, LiteralValue, operators};
use smart_default::SmartDefault;

use crate::engine::counted::parts;

/// Set of keys of a map.
#[derive(Clone, PartialEq, Eq, Debug, SmartDefault)]
pub enum ReadKeys {
    /// Only these.
    #[default]
    Named(Vec<String>),
    /// Those that may name a case of a dataset.
    OfCases,
    /// All: the map is read as a whole.
    All,
}

impl ReadKeys {
    /// Returns true if no key is read.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Named(keys) if keys.is_empty())
    }

    fn add(&mut self, key: &str) {
        if let Self::Named(keys) = self {
            keys.push(key.to_owned());
        }
    }

    fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::Named(mut keys), Self::Named(more)) => {
                keys.extend(more);
                Self::Named(keys)
            }
            (keys, none) | (none, keys) if none.is_empty() => keys,
            (Self::OfCases, Self::OfCases) => Self::OfCases,
            _ => Self::All,
        }
    }
}

/// Parts of the root span read to select a trajectory or find its expectation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RootReads {
    /// Keys of its attributes.
    pub attributes: ReadKeys,
    /// Keys of its resource.
    pub resource: ReadKeys,
    /// Its name.
    pub span_name: bool,
    /// Name of its agent.
    pub agent_name: bool,
    /// Id of its session.
    pub session_id: bool,
}

impl RootReads {
    /// Returns the union of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            attributes: self.attributes.union(other.attributes),
            resource: self.resource.union(other.resource),
            span_name: self.span_name || other.span_name,
            agent_name: self.agent_name || other.agent_name,
            session_id: self.session_id || other.session_id,
        }
    }

    /// Collects them from an unmodified expression.
    pub(super) fn of(expression: &IdedExpr) -> Self {
        let mut reads = Self::default();
        reads.add(expression);
        reads
    }

    fn add(&mut self, expression: &IdedExpr) {
        if let Some((map, key)) = looked_up(&expression.expr)
            && let Some(keys) = self.map(map)
        {
            return keys.add(key);
        }
        match &expression.expr {
            Expr::Ident(name) => self.add_name(name),
            Expr::Map(_) | Expr::Struct(_) => {
                *self = Self {
                    attributes: ReadKeys::All,
                    resource: ReadKeys::All,
                    span_name: true,
                    agent_name: true,
                    session_id: true,
                };
            }
            other => parts(other).into_iter().for_each(|part| self.add(part)),
        }
    }

    fn add_name(&mut self, name: &str) {
        match name {
            "span_name" => self.span_name = true,
            "agent_name" => self.agent_name = true,
            "session_id" => self.session_id = true,
            "service_name" => self.resource.add("service.name"),
            _ => {
                if let Some(keys) = self.map(name) {
                    *keys = ReadKeys::All;
                }
            }
        }
    }

    fn map(&mut self, name: &str) -> Option<&mut ReadKeys> {
        match name {
            "attributes" => Some(&mut self.attributes),
            "resource" => Some(&mut self.resource),
            _ => None,
        }
    }
}

/// Returns the map and the key of `map["key"]` and `map.key`.
fn looked_up(expression: &Expr) -> Option<(&str, &str)> {
    let (map, key) = match expression {
        Expr::Call(call) if call.func_name == operators::INDEX => {
            let [map, key] = call.args.as_slice() else { return None };
            let Expr::Literal(LiteralValue::String(key)) = &key.expr else { return None };
            (map, key.inner())
        }
        Expr::Select(select) => (&*select.operand, select.field.as_str()),
        _ => return None,
    };
    let Expr::Ident(name) = &map.expr else { return None };
    Some((name, key))
}

#[cfg(test)]
mod tests {
    use super::super::When;
    use super::*;

    #[test]
    fn keys_are_known_where_they_are_written_in_the_expression() {
        let check = |text: &str, attributes: ReadKeys, resource: ReadKeys| {
            let when = When::compile(text).unwrap();
            assert_eq!(when.root_reads().attributes, attributes, "{text}");
            assert_eq!(when.root_reads().resource, resource, "{text}");
        };
        let named = |keys: &[&str]| ReadKeys::Named(keys.iter().map(|key| (*key).into()).collect());
        let none = || named(&[]);
        check("service_name == 'shop'", none(), named(&["service.name"]));
        check("attributes['a.b'] == resource['c']", named(&["a.b"]), named(&["c"]));
        check("has(attributes.tier) && attributes.tier == 1", named(&["tier", "tier"]), none());
        check("json(attributes['metadata']).case == 'x'", named(&["metadata"]), none());
        check("'a' in attributes", ReadKeys::All, none());
        check("attributes[span_name] == 'x'", ReadKeys::All, none());
        check("tool_names.exists(t, t == resource['c'])", none(), named(&["c"]));
        let names = When::compile("span_name == agent_name || session_id == ''").unwrap();
        let reads = names.root_reads();
        assert!(reads.span_name && reads.agent_name && reads.session_id);
    }
}
