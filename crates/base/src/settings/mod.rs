//! Settings as written by a user, with the place of each value.
//!
//! Each part of the config is read from a [`Node`]: a tree of values with line and column.
//! `Node::read` turns one into a typed struct through `serde`. So each stage keeps its settings,
//! defaults and documentation beside its code, and an error names its place and the nearest valid
//! word.

mod address;
mod check;
mod de;
mod duration;
mod flatten;
mod nearest;
mod remedy;
mod secret;
mod switch;
pub mod tls;
pub mod yaml;

use std::fmt;

pub use address::{Address, REDACTED, user_of, without_secrets};
pub use check::{above_zero, listen_address, optional_listen_address, some_above_zero};
pub use duration::HumanDuration;
pub use flatten::{joined, keys_of, schema_of_both};
pub use nearest::{
    called_here, joined_key, meant_of, meant_or, meant_or_known, nearest, related,
    space_behind_colon,
};
pub use secret::Secret;
pub use switch::Switch;

use crate::value::{Map, Value};

/// Line and column of a value, both from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Line, from 1; 0 if the value has no place.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// Value of the settings with its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Content of the node.
    pub kind: NodeKind,
    /// Place of the node.
    pub place: Place,
}

/// Content of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeKind {
    /// Nothing, or `null`.
    #[default]
    Null,
    /// A scalar: text, number or truth value (never a list or map).
    Scalar(Value<'static>),
    /// A list.
    List(Vec<Node>),
    /// A map in the order written.
    Map(Vec<(Key, Node)>),
}

/// Key of a map with its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Key {
    /// Text of the key.
    pub text: String,
    /// Place of the key.
    pub place: Place,
}

/// Error in a setting, with its place and remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct SettingsError {
    /// Description of the mistake.
    pub message: String,
    /// Remedy, such as the nearest valid word.
    pub help: Option<String>,
    /// Place of the error; `None` if the value has none.
    pub place: Option<Place>,
}

impl SettingsError {
    /// Returns an error without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, place: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the place, unless a more exact one is set.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        if self.place.is_none() && place.line > 0 {
            self.place = Some(place);
        }
        self
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl Node {
    /// Reads the node as a typed struct.
    pub fn read<'de, T: serde::Deserialize<'de>>(&'de self) -> Result<T, SettingsError> {
        T::deserialize(self)
    }

    /// Returns the entry of a map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().find(|(k, _)| k.text == key).map(|(_, node)| node)
    }

    /// Returns the place of an entry, or of the map if it is absent.
    pub fn place_of(&self, key: &str) -> Place {
        self.along([key]).place
    }

    /// Returns an error at an entry, or at the map if it is absent.
    pub fn fault(&self, key: &str, message: impl Into<String>) -> SettingsError {
        SettingsError::new(message).at(self.place_of(key))
    }

    /// Changes the place of the node, and of all keys and nodes below.
    pub fn change_places(&mut self, change: &impl Fn(Place) -> Place) {
        self.place = change(self.place);
        match &mut self.kind {
            NodeKind::List(items) => items.iter_mut().for_each(|item| item.change_places(change)),
            NodeKind::Map(entries) => entries.iter_mut().for_each(|(key, node)| {
                key.place = change(key.place);
                node.change_places(change);
            }),
            NodeKind::Null | NodeKind::Scalar(_) => {}
        }
    }

    /// Returns the deepest existing node along these keys.
    pub fn along<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> &Self {
        keys.into_iter().try_fold(self, |at, key| at.get(key).ok_or(at)).unwrap_or_else(|at| at)
    }

    /// Returns the outermost node at a place, in this node and below.
    pub fn at(&self, place: Place) -> Option<&Self> {
        if self.place == place { Some(self) } else { self.inner().find_map(|node| node.at(place)) }
    }

    /// Collects the values of all entries with a key, at any depth.
    pub fn below<'n>(&'n self, key: &str, found: &mut Vec<&'n Self>) {
        found.extend(self.get(key));
        self.inner().for_each(|node| node.below(key, found));
    }

    /// Returns the values of a map, or the items of a list.
    fn inner(&self) -> Box<dyn Iterator<Item = &Self> + '_> {
        match &self.kind {
            NodeKind::List(items) => Box::new(items.iter()),
            _ => Box::new(self.entries().map(|(_, node)| node)),
        }
    }

    /// Returns the entries of a map; empty for others.
    pub fn entries(&self) -> impl Iterator<Item = &(Key, Node)> {
        match &self.kind {
            NodeKind::Map(entries) => entries.as_slice(),
            _ => &[],
        }
        .iter()
    }

    /// Splits a map by its keys into those that `belongs` accepts, and the others. Any other node
    /// stays whole on the right.
    pub fn split(&self, belongs: impl Fn(&str) -> bool) -> (Node, Node) {
        let NodeKind::Map(entries) = &self.kind else {
            return (Node { kind: NodeKind::Map(Vec::new()), place: self.place }, self.clone());
        };
        let (left, right) = entries.iter().cloned().partition(|(key, _)| belongs(&key.text));
        let node = |entries| Node { kind: NodeKind::Map(entries), place: self.place };
        (node(left), node(right))
    }

    /// Replaces, adds or removes the entry of a key; no effect on a node that is not a map.
    pub fn set(&mut self, key: &str, value: Option<Self>) {
        let NodeKind::Map(entries) = &mut self.kind else { return };
        let at = entries.iter().position(|(known, _)| known.text == key);
        match (at, value) {
            (Some(at), Some(value)) => entries[at].1 = value,
            (Some(at), None) => drop(entries.remove(at)),
            (None, Some(value)) => {
                let key = Key { text: key.to_owned(), place: value.place };
                entries.push((key, value));
            }
            (None, None) => {}
        }
    }

    /// Returns the value without places.
    pub fn to_value(&self) -> Value<'static> {
        match &self.kind {
            NodeKind::Null => Value::Null,
            NodeKind::Scalar(value) => value.clone(),
            NodeKind::List(items) => Value::List(items.iter().map(Node::to_value).collect()),
            NodeKind::Map(entries) => Value::Map(
                entries
                    .iter()
                    .map(|(key, node)| (key.text.clone(), node.to_value()))
                    .collect::<Map<'_>>(),
            ),
        }
    }

    /// Returns a node without places, for settings that do not come from a file.
    pub fn from_value(value: &Value<'_>) -> Self {
        let kind = match value {
            Value::Null => NodeKind::Null,
            Value::List(items) => NodeKind::List(items.iter().map(Node::from_value).collect()),
            Value::Map(map) => NodeKind::Map(
                map.iter()
                    .map(|(key, value)| {
                        let key = Key { text: key.to_owned(), ..Key::default() };
                        (key, Node::from_value(value))
                    })
                    .collect(),
            ),
            scalar => NodeKind::Scalar(scalar.clone().into_owned()),
        };
        Self { kind, place: Place::default() }
    }
}
