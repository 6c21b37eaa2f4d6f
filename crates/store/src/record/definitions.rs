//! Definitions of a run's offered tools, as one JSON object.
//!
//! ```text
//! {"tools":[{"name":"refund","description":"..","input_schema":{..},"agent":".."},..]}
//! ```
//!
//! If they are incomplete, `gap` precedes `tools` with the reason.

use std::fmt::{self, Write};

use super::FIELD_BYTES_MAX;
use super::content::LimitedWriter;
use crate::part::StoredGap;
use spanscore_base::model::ToolDefinition;
use spanscore_base::value::json;

/// Longest definitions of a run, bytes. Of longer ones only the names are stored, if these fit.
pub(crate) const DEFINITIONS_BYTES_MAX: usize = 4 * FIELD_BYTES_MAX;

/// Storable definitions of a run's tools.
#[derive(Clone, Debug)]
pub(crate) struct RecordedDefinitions {
    pub(crate) text: String,
    /// True if they exceed the limit.
    pub(crate) is_cut: bool,
}

impl RecordedDefinitions {
    /// Writes definitions; without content only their names. Definitions are read only for an
    /// evaluator, so without content an empty list is unknown: `None`.
    pub(crate) fn of(tools: &[ToolDefinition<'_>], with_content: bool) -> Option<Self> {
        if !with_content && tools.is_empty() {
            return None;
        }
        let whole = if with_content { written(tools, None) } else { None };
        let is_cut = with_content && whole.is_none();
        let gap = if is_cut { StoredGap::Cut } else { StoredGap::NotStored };
        let text = whole.or_else(|| written(tools, Some(gap)));
        let text = text.or_else(|| written(&[], Some(StoredGap::Cut))).unwrap_or_default();
        Some(Self { text, is_cut })
    }
}

/// Writes tools, only their names with a gap; `None` if they are too long.
fn written(tools: &[ToolDefinition<'_>], gap: Option<StoredGap>) -> Option<String> {
    let mut out = String::new();
    let mut limited = LimitedWriter { out: &mut out, left: DEFINITIONS_BYTES_MAX };
    write_all(tools, gap, &mut limited).ok()?;
    Some(out)
}

fn write_all(
    tools: &[ToolDefinition<'_>],
    gap: Option<StoredGap>,
    out: &mut LimitedWriter<'_>,
) -> fmt::Result {
    match gap {
        Some(gap) => write!(out, r#"{{"gap":"{}","tools":["#, gap.as_str())?,
        None => out.write_str(r#"{"tools":["#)?,
    }
    for (at, tool) in tools.iter().enumerate() {
        out.write_str(if at == 0 { r#"{"name":"# } else { r#",{"name":"# })?;
        json::write_string(&tool.name, out)?;
        if gap.is_none() {
            write_rest(tool, out)?;
        }
        out.write_char('}')?;
    }
    out.write_str("]}")
}

/// Writes the parts of a definition after its name.
fn write_rest(tool: &ToolDefinition<'_>, out: &mut LimitedWriter<'_>) -> fmt::Result {
    if !tool.description.is_empty() {
        out.write_str(r#","description":"#)?;
        json::write_string(&tool.description, out)?;
    }
    if !tool.input_schema.is_null() {
        out.write_str(r#","input_schema":"#)?;
        json::write(&tool.input_schema, out)?;
    }
    if let Some(agent) = &tool.agent {
        out.write_str(r#","agent":"#)?;
        json::write_string(agent, out)?;
    }
    Ok(())
}
