//! Kinds of evaluators, exporters and receivers, with their settings.

pub(super) mod evaluators;
mod settings;

use clap::Args;
use serde_json::Value;

use self::settings::{resolved, settings};
use super::{CommandError, Exit, misused, output};
use crate::config;
use spanscore_base::settings::meant_or_known;
use spanscore_emit::settings::KINDS;

/// Lists the kinds of exporters, or the settings of one kind
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore exporters
  spanscore exporters otlp_grpc")]
pub(super) struct ExportersArgs {
    /// Kind whose settings are shown
    kind: Option<String>,
}

/// Lists the receivers, or the settings of one receiver
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore receivers
  spanscore receivers otlp")]
pub(super) struct ReceiversArgs {
    /// Receiver whose settings are shown
    kind: Option<String>,
}

/// Kind, as listed and shown.
struct ListedKind {
    name: String,
    about: String,
    /// Schema of its settings, and the root schema of its references.
    schema: (Value, Value),
}

pub(super) fn exporters(args: &ExportersArgs) -> Result<Exit, CommandError> {
    let kinds = KINDS.iter().map(|kind| {
        let schema = (kind.schema)().to_value();
        let about = kind.about.to_owned();
        ListedKind { name: kind.name.to_owned(), about, schema: (schema.clone(), schema) }
    });
    show(&kinds.collect::<Vec<_>>(), args.kind.as_deref(), "exporters")
}

pub(super) fn receivers(args: &ReceiversArgs) -> Result<Exit, CommandError> {
    let root = config::schema();
    let section = root.pointer("/properties/receivers").map(|section| resolved(section, &root));
    let kinds = section.and_then(|it| it.get("properties")?.as_object());
    let kinds = kinds.into_iter().flatten().map(|(name, property)| {
        let about = property.get("description").and_then(Value::as_str).unwrap_or_default();
        let about = about.replace('\n', " ");
        let schema = (resolved(property, &root).clone(), root.clone());
        ListedKind { name: name.clone(), about, schema }
    });
    show(&kinds.collect::<Vec<_>>(), args.kind.as_deref(), "receivers")
}

/// Prints a table of all kinds, or the settings of the requested one.
fn show(
    kinds: &[ListedKind],
    requested: Option<&str>,
    command: &str,
) -> Result<Exit, CommandError> {
    let Some(word) = requested else {
        let mut table = output::table(["KIND", "ABOUT"]);
        for kind in kinds {
            table.add_row([&kind.name, &kind.about]);
        }
        output::line(table.trim_fmt())?;
        return Ok(Exit::Success);
    };
    let Some(kind) = kinds.iter().find(|kind| kind.name == word) else {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        let help = meant_or_known(word, &names);
        return misused(format!("`{word}` is none of the {command}; {help}"));
    };
    let mut out = format!("{}\n\n  {}\n\nSettings\n", kind.name, kind.about);
    let (schema, root) = &kind.schema;
    settings(schema, root, 1, &mut out);
    output::text(&out)?;
    Ok(Exit::Success)
}
