//! UiPath evaluator as written by users: in our own form, or as the package's unmodified file.
//!
//! ```text
//! {strict, subset, criteria: {...}, compat: uipath}
//! {version, id, description, evaluatorTypeId, evaluatorConfig: {name, strict, ...}}
//! ```

use super::lax;
use super::spans::ExpectedKey;
use spanscore_base::settings::{Key, Node, NodeKind, SettingsError};
use spanscore_base::value::Value;
use spanscore_base::value::python::PyValue;

/// Validation of the package that rejects a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The evaluator's configuration.
    Config,
    /// The evaluation criteria.
    Criteria,
}

const CONFIG: &str = "not a UiPath configuration: ";
const CRITERIA: &str = "not UiPath evaluation criteria: ";

/// Returns the class of an error from building with `compat: uipath`; `None` for others.
pub fn error_class(error: &SettingsError) -> Option<ErrorClass> {
    if error.message.starts_with(CONFIG) {
        Some(ErrorClass::Config)
    } else if error.message.starts_with(CRITERIA) {
        Some(ErrorClass::Criteria)
    } else {
        None
    }
}

/// Keys of the package's file without effect on the score.
const METADATA: &[&str] =
    &["version", "id", "evaluatorTypeId", "evaluator_type_id", "evaluatorSchema"];
/// Keys of the configuration in the package's file.
const WRAPPERS: &[&str] = &["evaluatorConfig", "evaluator_config", "config"];

/// Name of a Boolean setting in snake case and in camel case.
pub(crate) struct Flag(pub(crate) &'static str, pub(crate) &'static str);

/// Definition without the wrapping layers of the package's file.
pub(crate) struct Definition {
    /// Settings, including `criteria` and `compat`.
    pub(crate) body: Node,
}

impl Definition {
    /// Removes the layers. `type_id` is the package's name of the kind, such as `tool-call-args`; a
    /// definition of another kind is rejected.
    pub(crate) fn read(node: &Node, type_id: &str) -> Result<Self, SettingsError> {
        if let Some(named) = node.get("evaluatorTypeId").or_else(|| node.get("evaluator_type_id"))
            && let Some(name) = lax::text(named)
            && name.strip_prefix("uipath-").unwrap_or(name) != type_id
        {
            let message = format!("`{name}` is another kind of evaluator than `{type_id}`");
            return Err(SettingsError::new(message).at(named.place));
        }
        let Some((wrapper, inner)) =
            node.entries().find(|(key, _)| WRAPPERS.contains(&key.text.as_str()))
        else {
            return Ok(Self { body: node.clone() });
        };
        let NodeKind::Map(inner) = &inner.kind else {
            let message = format!("{CONFIG}`{}` must be a map", wrapper.text);
            return Err(SettingsError::new(message).at(inner.place));
        };
        let outer = node.entries().filter(|(key, _)| {
            !WRAPPERS.contains(&key.text.as_str()) && !METADATA.contains(&key.text.as_str())
        });
        let outer: Vec<(Key, Node)> = outer.cloned().collect();
        let is_outer = |key: &Key| outer.iter().any(|(other, _)| other.text == key.text);
        let mut entries: Vec<(Key, Node)> =
            inner.iter().filter(|(key, _)| !is_outer(key)).cloned().collect();
        entries.extend(outer);
        Ok(Self { body: Node { kind: NodeKind::Map(entries), place: node.place } })
    }

    /// Returns true if the package's scores are requested.
    pub(crate) fn is_compat(&self) -> Result<bool, SettingsError> {
        match self.body.get("compat") {
            None => Ok(false),
            Some(node) => node.read::<Option<super::UiPathCompat>>().map(|compat| compat.is_some()),
        }
    }

    /// Returns a setting by its two spellings; the camel case one wins.
    pub(crate) fn setting(&self, snake: &str, camel: &str) -> Option<&Node> {
        lax::field(&self.body, snake, camel)
    }

    /// Parses a Boolean as the package does.
    pub(crate) fn flag(&self, flag: Flag) -> Result<bool, SettingsError> {
        let Flag(name, camel) = flag;
        let Some(node) = self.setting(name, camel) else { return Ok(false) };
        lax::boolean(node).ok_or_else(|| {
            SettingsError::new(format!("{CONFIG}`{name}` is neither true nor false")).at(node.place)
        })
    }

    /// Parses an optional text.
    pub(crate) fn text_setting(
        &self,
        snake: &str,
        camel: &str,
    ) -> Result<Option<String>, SettingsError> {
        let Some(node) = self.setting(snake, camel) else { return Ok(None) };
        let text = lax::text(node).map(|text| Some(text.to_owned()));
        text.ok_or_else(|| {
            SettingsError::new(format!("{CONFIG}`{snake}` must be a text")).at(node.place)
        })
    }

    /// Parses the criteria, or the default ones, with `read`.
    pub(crate) fn criteria<T>(
        &self,
        read: impl Fn(&Node) -> Result<T, SettingsError>,
    ) -> Result<T, SettingsError> {
        for name in ["name", "description"] {
            if let Some(node) = self.body.get(name).filter(|node| lax::text(node).is_none()) {
                let message = format!("{CONFIG}`{name}` must be a text");
                return Err(SettingsError::new(message).at(node.place));
            }
        }
        let default = self.setting("default_evaluation_criteria", "defaultEvaluationCriteria");
        let class = |class: &'static str| {
            move |mut error: SettingsError| {
                error.message.insert_str(0, class);
                error
            }
        };
        let default = match default.filter(|node| node.kind != NodeKind::Null) {
            Some(node) => Some(read(node).map_err(class(CONFIG))?),
            None => None,
        };
        match self.body.get("criteria").filter(|node| node.kind != NodeKind::Null) {
            Some(node) => read(node).map_err(class(CRITERIA)),
            None => default.ok_or_else(|| {
                let message = format!("{CRITERIA}`criteria` is missing");
                SettingsError::new(message).at(self.body.place)
            }),
        }
    }
}

/// Expected call or output: its entry in the criteria.
pub(super) struct ExpectedEntry {
    /// Keys that match its calls.
    pub(super) key: ExpectedKey,
    /// Name of the tool as written.
    pub(super) name: String,
    /// Id, if given.
    pub(super) id: Option<String>,
    /// Number of values in the content, or of bytes in a text.
    pub(super) weight: usize,
    /// Expected arguments or output.
    pub(super) content: PyValue<'static>,
}

/// Parses a list of expected calls under a key of two spellings.
pub(super) fn expected_list(
    criteria: &Node,
    (snake, camel): (&str, &str),
    content: impl Fn(&Node) -> Result<(usize, PyValue<'static>), SettingsError>,
) -> Result<Vec<ExpectedEntry>, SettingsError> {
    let read = |item: &Node| {
        let name = item.get("name").ok_or_else(|| missing("name", item))?;
        let id = item.get("id").filter(|id| id.kind != NodeKind::Null);
        let name = required_text(name, "name")?;
        let id = id.map(|id| required_text(id, "id")).transpose()?;
        let key = ExpectedKey::new(&name, id.as_deref());
        let (weight, content) = content(item)?;
        Ok(ExpectedEntry { key, name, id, weight, content })
    };
    required_list(criteria, (snake, camel), read)
}

/// Parses the items of a list under a key of two spellings.
pub(super) fn required_list<T>(
    criteria: &Node,
    (snake, camel): (&str, &str),
    read: impl Fn(&Node) -> Result<T, SettingsError>,
) -> Result<Vec<T>, SettingsError> {
    let list = lax::field(criteria, snake, camel).ok_or_else(|| missing(snake, criteria))?;
    let NodeKind::List(items) = &list.kind else {
        return Err(SettingsError::new(format!("`{snake}` must be a list")).at(list.place));
    };
    items.iter().map(read).collect()
}

/// Returns the error for a missing required key.
pub(crate) fn missing(key: &str, node: &Node) -> SettingsError {
    SettingsError::new(format!("`{key}` is missing")).at(node.place)
}

/// Parses a text, without conversion from other types.
pub(crate) fn required_text(node: &Node, key: &str) -> Result<String, SettingsError> {
    lax::text(node)
        .map(str::to_owned)
        .ok_or_else(|| SettingsError::new(format!("`{key}` must be a text")).at(node.place))
}

/// Parses the arguments of an expected call.
pub(super) fn required_map(node: &Node, key: &str) -> Result<Value<'static>, SettingsError> {
    match node.kind {
        NodeKind::Map(_) => Ok(node.to_value()),
        _ => Err(SettingsError::new(format!("`{key}` must be an object")).at(node.place)),
    }
}
