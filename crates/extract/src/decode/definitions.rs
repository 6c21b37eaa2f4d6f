//! Parser of tool definitions in all their shapes.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::{json_or_text, structured};
use spanscore_base::model::ToolDefinition;
use spanscore_base::value::{Map, Value};

/// Keys of the arguments' JSON Schema.
const SCHEMA_KEYS: [&str; 7] = [
    "parameters", "input_schema", "inputSchema", "parameters_json_schema", "json_schema",
    "args_schema", "schema",
];

/// Largest linearly searched list; longer ones have an index.
const FEW_MAX: usize = 16;

/// Limit on definitions of known names for further agents; the first ones count.
const OTHERS_MAX: usize = 64;

/// Definitions in the order found. The first of equal names counts, except for agents with a
/// different tool of that name.
#[derive(Default)]
pub(crate) struct FoundDefinitions<'a> {
    list: Vec<ToolDefinition<'a>>,
    /// Agents with access to them.
    agents: Vec<Option<Cow<'a, str>>>,
    /// Index of their names, empty for few.
    names: HashMap<Cow<'a, str>, usize>,
    /// Agent of the definitions being read.
    reader: Option<Cow<'a, str>>,
    /// Number of definitions of known names for further agents.
    others: usize,
}

impl<'a> FoundDefinitions<'a> {
    /// Sets the agent for the definitions read next.
    pub(crate) fn offer_to(&mut self, agent: Option<Cow<'a, str>>) {
        self.reader = agent;
    }

    /// Returns true if a tool of that name is defined.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    fn place(&self, name: &str) -> Option<usize> {
        if self.list.len() <= FEW_MAX {
            return self.list.iter().position(|known| known.name == name);
        }
        self.names.get(name).copied()
    }

    /// Adds a definition if its name is new, or new for its agent.
    pub(crate) fn add(&mut self, definition: ToolDefinition<'a>) {
        if let Some(at) = self.place(&definition.name) {
            self.add_other(at, definition);
            return;
        }
        self.push(definition);
    }

    /// Appends a definition; the index has the first of each name.
    fn push(&mut self, definition: ToolDefinition<'a>) {
        if self.list.len() == FEW_MAX {
            for (at, known) in self.list.iter().enumerate() {
                self.names.entry(known.name.clone()).or_insert(at);
            }
        }
        if self.list.len() >= FEW_MAX {
            self.names.entry(definition.name.clone()).or_insert(self.list.len());
        }
        self.list.push(definition);
        self.agents.push(self.reader.clone());
    }

    /// Adds a different definition of a known name for another agent.
    fn add_other(&mut self, at: usize, definition: ToolDefinition<'a>) {
        let is_of_other = self.reader.is_some() && self.agents[at] != self.reader;
        if !is_of_other
            || self.others >= OTHERS_MAX
            || self.list[at].input_schema == definition.input_schema
            || self.list.iter().any(|known| {
                known.name == definition.name && known.agent.is_some() && known.agent == self.reader
            })
        {
            return;
        }
        self.others += 1;
        self.list[at].agent.clone_from(&self.agents[at]);
        self.push(ToolDefinition { agent: self.reader.clone(), ..definition });
    }

    /// Returns all definitions in order.
    pub(crate) fn into_list(self) -> Vec<ToolDefinition<'a>> {
        self.list
    }
}

/// Parses the definitions in a list, or in its text; other items are ignored.
pub(crate) fn tool_definitions<'a>(value: Value<'a>, found: &mut FoundDefinitions<'a>) {
    match value {
        Value::List(items) => items.into_iter().for_each(|item| tool_definitions(item, found)),
        Value::String(_) => {
            if let Some(value @ (Value::List(_) | Value::Map(_))) = structured(value) {
                tool_definitions(value, found);
            }
        }
        Value::Map(map) => definition(map, found),
        _ => {}
    }
}

fn definition<'a>(mut map: Map<'a>, found: &mut FoundDefinitions<'a>) {
    for key in ["function_declarations", "functionDeclarations", "tools"] {
        if let Some(list) = map.remove(key) {
            return tool_definitions(list, found);
        }
    }
    for key in ["function", "toolSpec", "tool"] {
        if let Some(Value::Map(mut inner)) = map.remove(key) {
            // OpenInference has the whole definition as text in `tool.json_schema`.
            if inner.get("name").is_none()
                && let Some(schema) = inner.remove("json_schema")
            {
                return tool_definitions(schema, found);
            }
            return definition(inner, found);
        }
    }
    let Some(Value::String(name)) = map.remove("name") else { return };
    let description = match map.remove("description") {
        Some(Value::String(text)) => text,
        _ => Cow::Borrowed(""),
    };
    let schema = SCHEMA_KEYS.iter().find_map(|key| map.remove(key)).unwrap_or_default();
    let mut schema = match json_or_text(schema) {
        Value::String(_) => Value::Null,
        schema => schema,
    };
    if let Value::Map(inner) = &mut schema
        && inner.len() == 1
        && let Some(wrapped) = inner.remove("json")
    {
        schema = wrapped;
    }
    found.add(ToolDefinition { name, description, input_schema: schema, agent: None });
}
