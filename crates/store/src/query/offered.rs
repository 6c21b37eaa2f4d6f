//! Stored definitions of the tools that a run was offered.

use spanscore_base::model::ToolDefinition;
use spanscore_base::value::{Value, json};

use super::unpack::unpacked;
use crate::part::StoredGap;

/// Unpacked definitions of tools.
pub(super) struct OfferedTools(Value<'static>);

impl OfferedTools {
    /// Reads packed definitions; `None` if malformed.
    pub(super) fn read(packed: &[u8]) -> Option<Self> {
        let text = String::from_utf8(unpacked(packed)?).ok()?;
        Some(Self(json::parse(&text).ok()?.into_owned()))
    }

    /// Returns the reason that they are incomplete.
    pub(super) fn gap(&self) -> Option<StoredGap> {
        self.0.get("gap").and_then(Value::as_str)?.parse().ok()
    }

    /// Returns the definitions.
    pub(super) fn definitions(&self) -> Vec<ToolDefinition<'_>> {
        let tools = self.0.get("tools").and_then(Value::as_list).unwrap_or_default();
        tools.iter().map(definition).collect()
    }
}

fn definition<'t>(tool: &'t Value<'_>) -> ToolDefinition<'t> {
    let text = |name| tool.get(name).and_then(Value::as_str);
    ToolDefinition {
        name: text("name").unwrap_or_default().into(),
        description: text("description").unwrap_or_default().into(),
        input_schema: tool.get("input_schema").cloned().unwrap_or_default(),
        agent: text("agent").map(Into::into),
    }
}

/// Returns the list of packed definitions.
pub(super) fn offered_list(packed: &[u8]) -> Option<serde_json::Value> {
    let mut content: serde_json::Value = serde_json::from_slice(&unpacked(packed)?).ok()?;
    content.get_mut("tools").map(serde_json::Value::take)
}
