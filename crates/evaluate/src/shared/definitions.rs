//! Tool definitions from the settings, a file, or the trace.
//!
//! Accepted forms are a list of `{name, description, inputSchema}`, an MCP server's result of
//! `tools/list`, and the `tools` of a model request
//! (`{type: function, function: {name, parameters}}`). The last of equal names counts; the settings
//! override the trace.

use std::borrow::Cow;

use spanscore_base::model::{ToolCall, ToolDefinition, Trajectory};
use spanscore_base::settings::SettingsError;
use spanscore_base::value::{Map, Value};

/// Number of definitions up to which names are searched for linearly.
const SEARCHED_MAX: usize = 16;

/// Definitions in the settings.
#[derive(Default)]
pub struct Definitions {
    given: Option<Vec<ToolDefinition<'static>>>,
}

impl Definitions {
    /// Parses the settings `tools` and `tools_file`. Evaluators do no I/O: the config puts the
    /// file's content under `tools` before it builds them.
    pub fn new(tools: Option<Value<'static>>, file: Option<&str>) -> Result<Self, SettingsError> {
        if let Some(path) = file {
            return Err(SettingsError::new(format!("`tools_file` {path} was not read")));
        }
        Ok(Self { given: tools.map(|tools| read(&tools)).transpose()? })
    }

    /// Returns true if the settings have definitions, even an empty list.
    pub fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Returns all definitions known for a trajectory, those of the settings last.
    pub fn of<'t>(&'t self, trajectory: &'t Trajectory<'_>) -> Tools<'t> {
        let known = trajectory.tool_definitions.iter().map(Tool::from);
        let given = self.given.iter().flatten();
        let given = given.map(|tool| Tool { is_configured: true, ..Tool::from(tool) });
        Tools::new(known.chain(given).collect())
    }
}

/// Tool definition.
#[derive(Clone, Copy)]
pub struct Tool<'t> {
    /// Tool name.
    pub name: &'t str,
    /// Description; empty if absent.
    pub description: &'t str,
    /// JSON Schema of the arguments; `Null` if absent.
    pub schema: &'t Value<'t>,
    /// True if it comes from the settings, false if from the trace.
    pub is_configured: bool,
    /// Agent with this definition, if other agents have another tool of this name.
    agent: Option<&'t str>,
}

impl<'t> From<&'t ToolDefinition<'_>> for Tool<'t> {
    fn from(tool: &'t ToolDefinition<'_>) -> Self {
        Self {
            name: &tool.name,
            description: &tool.description,
            schema: &tool.input_schema,
            is_configured: false,
            agent: tool.agent.as_deref(),
        }
    }
}

/// Definitions for one trajectory.
pub struct Tools<'t> {
    /// In order; the last of equal names counts.
    pub all: Vec<Tool<'t>>,
    index: Option<hashbrown::HashMap<&'t str, usize>>,
}

impl<'t> Tools<'t> {
    fn new(all: Vec<Tool<'t>>) -> Self {
        let index = (all.len() > SEARCHED_MAX)
            .then(|| all.iter().enumerate().map(|(index, tool)| (tool.name, index)).collect());
        Self { all, index }
    }

    /// Returns the definition for a call: its own agent's, if agents have different tools of this
    /// name.
    pub fn of_call(&self, call: &ToolCall<'_>) -> Option<Tool<'t>> {
        let last = self.get(&call.name)?;
        if last.agent.is_none() {
            return Some(last);
        }
        let mut named = self.all.iter().filter(|tool| tool.name == call.name);
        let first = named.clone().next();
        named.find(|tool| tool.agent == call.agent.as_deref()).or(first).copied()
    }

    /// Returns the definition of a tool.
    pub fn get(&self, name: &str) -> Option<Tool<'t>> {
        match &self.index {
            Some(index) => index.get(name).map(|&index| self.all[index]),
            None => self.all.iter().rev().find(|tool| tool.name == name).copied(),
        }
    }
}

fn read(tools: &Value<'static>) -> Result<Vec<ToolDefinition<'static>>, SettingsError> {
    let list = tools.get("tools").unwrap_or(tools);
    let Some(list) = list.as_list() else {
        let error = SettingsError::new("`tools` is not a list of definitions");
        return Err(error.with_help(
            "write a list of `{name, inputSchema}`, or name a JSON file in `tools_file`",
        ));
    };
    list.iter()
        .enumerate()
        .map(|(index, tool)| {
            definition(tool).map_err(|what| SettingsError::new(format!("tool {index}: {what}")))
        })
        .collect()
}

fn definition(tool: &Value<'static>) -> Result<ToolDefinition<'static>, &'static str> {
    let map = tool.get("function").unwrap_or(tool).as_map().ok_or("not an object")?;
    let name = map.get("name").and_then(Value::as_str).ok_or("no `name`")?;
    if super::text::is_blank(name) {
        return Err("`name` is blank");
    }
    let description = match map.get("description") {
        None | Some(Value::Null) => "",
        Some(text) => text.as_str().ok_or("`description` is not a text")?,
    };
    let schema = ["inputSchema", "input_schema", "parameters"].iter().find_map(|key| map.get(key));
    let input_schema = match schema {
        None | Some(Value::Null) => Value::Map(Map::new()),
        Some(Value::Map(schema)) if schema.iter().any(|(_, value)| value.is_null()) => {
            return Err("a keyword of its schema is null");
        }
        Some(schema @ Value::Map(_)) => schema.clone(),
        Some(_) => return Err("its schema is not an object"),
    };
    Ok(ToolDefinition {
        name: Cow::Owned(name.to_owned()),
        description: Cow::Owned(description.to_owned()),
        input_schema,
        agent: None,
    })
}

/// Returns the names under `required`, in order.
///
/// Anything but a list is empty; entries other than texts count in printed form. Fails on a null
/// entry.
pub fn required<'s>(schema: &'s Value<'_>) -> Result<Vec<Cow<'s, str>>, InvalidDefinition> {
    let entries = schema.get("required").and_then(Value::as_list).unwrap_or_default();
    let names = entries.iter().map(|entry| match entry {
        Value::String(name) => Ok(Cow::Borrowed(&**name)),
        Value::Null => Err(InvalidDefinition),
        other => Ok(Cow::Owned(other.to_string())),
    });
    names.collect()
}

/// Malformed definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an entry of `required` is null")]
pub struct InvalidDefinition;

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(text: &str, read_as: &str) {
        let value = json::parse(text).unwrap();
        let found = match Definitions::new(Some(value.into_owned()), None) {
            Ok(definitions) => {
                let tools = definitions.given.unwrap();
                let tool = |t: &ToolDefinition<'_>| format!("{} {}", t.name, t.input_schema);
                tools.iter().map(tool).collect::<Vec<_>>().join(", ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, read_as, "{text}");
    }

    #[test]
    fn definitions_are_read_as_users_have_them() {
        check(r#"[{"name":"a","inputSchema":{"type":"object"}}]"#, r#"a {"type":"object"}"#);
        check(r#"{"tools":[{"name":"a","input_schema":{}}]}"#, "a {}");
        check(
            r#"[{"type":"function","function":{"name":"a","parameters":{"a":1}}}]"#,
            r#"a {"a":1}"#,
        );
        check(r#"[{"name":" "}]"#, "tool 0: `name` is blank");
        check(r#"[{"name":"a"},5]"#, "tool 1: not an object");
        check(r#"[{"name":"a","inputSchema":"{}"}]"#, "tool 0: its schema is not an object");
        check(
            "5",
            "`tools` is not a list of definitions (write a list of `{name, inputSchema}`, or name \
             a JSON file in `tools_file`)",
        );
    }
}
