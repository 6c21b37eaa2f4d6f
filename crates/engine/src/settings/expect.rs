//! `expect`: criteria that differ from trace to trace, from a dataset or from the traces.
//!
//! Evaluators do no I/O, so the dataset is read here and each of its rows built into an evaluator:
//! a mistake in a row is a mistake of the config, shown with the dataset's file and line.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::dataset::{self, Mistake, Row};
use super::expression::compile;
use super::read::read_all;
use super::sources::ConfigSources;
use spanscore_base::settings::{Node, Place, SettingsError};
use spanscore_base::value::Value;
use spanscore_evaluate::engine::expect::case::Case;
use spanscore_evaluate::engine::expect::{Expectation, Expectations, Template};

/// Most bytes of a dataset.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Most mistakes shown for the rows of one dataset.
const MISTAKES_MAX: usize = 20;

/// Source of criteria: `file` with `key`, or `attribute`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectSettings {
    /// A dataset with the criteria of each test case, read once at the start: JSON Lines, CSV (by
    /// its name, `.csv`), an eval set of the Agent Development Kit or one of UiPath. A path from
    /// the folder of the config file.
    pub file: Option<String>,
    /// Case of a trace: a CEL expression over the names of `when`, such as
    /// `attributes["eval.case.id"]`, that gives a text or a whole number.
    pub key: Option<String>,
    /// JSON Lines and CSV: field of a row with the case's name. Dots lead into objects. Default
    /// `id`.
    pub id_field: String,
    /// JSON Lines and CSV: field of a row with the criteria, an object or the JSON text of one; a
    /// row where it is empty expects nothing. Dots lead into objects. Default `criteria`.
    pub criteria_field: String,
    /// UiPath eval sets: the evaluator whose criteria of each evaluation are taken. Needed if the
    /// file has those of several evaluators.
    pub evaluator: Option<String>,
    /// Eval sets of other systems: true if maps whose only key is `$is` are matchers in them too.
    /// Default `false`.
    pub matchers: bool,
    /// The attribute of the root span that holds the criteria, as JSON.
    pub attribute: Option<String>,
}

impl Default for ExpectSettings {
    fn default() -> Self {
        Self {
            file: None,
            key: None,
            id_field: "id".to_owned(),
            criteria_field: "criteria".to_owned(),
            evaluator: None,
            matchers: false,
            attribute: None,
        }
    }
}

/// Reads the criteria; `shared` holds the setting itself, for its places.
pub(super) fn read(
    settings: &ExpectSettings,
    shared: &Node,
    template: Template,
    sources: &ConfigSources,
    errors: &mut Vec<SettingsError>,
) -> Option<Expectations> {
    let node = shared.get("expect")?;
    let mut refuse = |message: String, help: &str, at: Place| {
        errors.push(SettingsError::new(message).with_help(help).at(at));
        None
    };
    if let Some(criteria) = template.settings.get("criteria") {
        let message = "`criteria` and `expect` exclude each other".to_owned();
        return refuse(message, "leave one of them out", criteria.place);
    }
    let Some(sample) = Case::sample_criteria(template.kind) else {
        let message = format!("`{}` takes no criteria", template.kind.name);
        return refuse(message, "leave `expect` out", node.place);
    };
    let help = "give `file` and `key`, or `attribute`";
    match (settings.file.as_deref(), node.get("key"), settings.attribute.as_deref()) {
        (Some(file), Some(key), None) => {
            let place = node.get("file").map_or(node.place, |node| node.place);
            let tried = try_out(&template, &sample, place, errors);
            let key = compile("key", key, sources, errors);
            let path = sources.folder_of(place).join(file);
            let rows = read_rows(&path, settings, &template, tried.is_some(), errors, place);
            Some(Expectations::dataset(key?, rows?))
        }
        (None, None, Some(attribute)) => {
            let place = node.get("attribute").map_or(node.place, |node| node.place);
            let tried = try_out(&template, &sample, place, errors)?;
            Some(Expectations::attribute(attribute.to_owned(), template, &tried.evaluator))
        }
        (Some(_), None, None) => refuse("`expect` lacks `key`".to_owned(), help, node.place),
        (None, Some(_), None) => refuse("`expect` lacks `file`".to_owned(), help, node.place),
        (None, None, None) => refuse("`expect` says nothing".to_owned(), help, node.place),
        _ => {
            let message = "`file` with `key`, and `attribute` exclude each other".to_owned();
            refuse(message, help, node.place)
        }
    }
}

/// Builds the evaluator once with valid criteria, so that any mistake is one of the settings.
fn try_out(
    template: &Template,
    sample: &Value<'_>,
    place: Place,
    errors: &mut Vec<SettingsError>,
) -> Option<Expectation> {
    let settings = template.with(&Node::from_value(sample), place);
    read_all(&settings, errors, |node| (template.kind.build)(node))?;
    template.build(sample, place).ok()
}

/// Reads the rows of a dataset and builds them.
fn read_rows(
    path: &Path,
    settings: &ExpectSettings,
    template: &Template,
    is_right: bool,
    errors: &mut Vec<SettingsError>,
    place: Place,
) -> Option<HashMap<String, Arc<Expectation>>> {
    let file = path.display();
    let text = match read_file(path) {
        Ok(text) => text,
        Err(what) => {
            let message = format!("cannot read the dataset {file}: {what}");
            let help = "a path from the folder of the config file";
            errors.push(SettingsError::new(message).with_help(help).at(place));
            return None;
        }
    };
    let mut mistakes = Vec::new();
    let rows = dataset::read(path, &text, settings, template.kind, &mut mistakes);
    let built = if is_right {
        build(rows, settings, template, place, &mut mistakes)
    } else {
        HashMap::new()
    };
    let is_whole = mistakes.is_empty();
    let omitted = mistakes.len().saturating_sub(MISTAKES_MAX);
    errors.extend(mistakes.into_iter().take(MISTAKES_MAX).map(|Mistake { line, what, help }| {
        let at = line.map(|line| format!(":{line}")).unwrap_or_default();
        let mut error = SettingsError::new(format!("{file}{at}: {what}")).at(place);
        error.help = help;
        error
    }));
    if omitted > 0 {
        errors.push(SettingsError::new(format!("{file}: {omitted} more mistakes")).at(place));
    }
    is_whole.then_some(built)
}

fn build(
    rows: Vec<Row>,
    settings: &ExpectSettings,
    template: &Template,
    place: Place,
    mistakes: &mut Vec<Mistake>,
) -> HashMap<String, Arc<Expectation>> {
    let mut built = HashMap::with_capacity(rows.len());
    for Row { names, criteria, line, is_imported } in rows {
        let read = if is_imported && !settings.matchers {
            template.build_literal(&criteria, place)
        } else {
            template.build(&criteria, place)
        };
        let expectation = match read {
            Ok(mut expectation) => {
                if let Some(info) = Arc::get_mut(&mut expectation.info) {
                    info.case = names.first().map(|name| name.as_str().into());
                }
                Arc::new(expectation)
            }
            Err(error) => {
                mistakes.push(Mistake { line, what: error.message, help: error.help });
                continue;
            }
        };
        for name in names {
            if built.contains_key(&name) {
                mistakes.push(Mistake::new(line, format!("case `{name}` comes twice")));
            } else {
                built.insert(name, Arc::clone(&expectation));
            }
        }
    }
    built
}

fn read_file(path: &Path) -> Result<String, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("{size} bytes are more than {FILE_BYTES_MAX}"));
    }
    fs::read_to_string(path).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
