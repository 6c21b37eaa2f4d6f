//! `expect`: criteria per trace, from a dataset or from the traces.
//!
//! Evaluators do no I/O, so the dataset is read here and an evaluator is built for each row. An
//! error in a row is an error of the config, with the dataset's file and line.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::dataset::{self, CaseTurn, Mistake, Row};
use super::expression::compile;
use super::read::read_all;
use super::sources::ConfigSources;
use spanscore_base::settings::{Node, Place, SettingsError};
use spanscore_base::value::Value;
use spanscore_evaluate::engine::expect::case::Case;
use spanscore_evaluate::engine::expect::lookup::{CaseKey, CaseRows, words};
use spanscore_evaluate::engine::expect::{Expectation, Expectations, Template};

/// Size limit of a dataset, bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Limit on shown errors of one dataset's rows.
const MISTAKES_MAX: usize = 20;

/// Source of criteria: `file` with `key` or `match`, or `attribute`.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectSettings {
    /// Dataset with the criteria of each test case, read at the start. Formats: JSON Lines, CSV
    /// (file name `*.csv`), eval sets of the Agent Development Kit or UiPath. The path is relative
    /// to the config file.
    pub file: Option<String>,
    /// Test case of a trace: a CEL expression over the names of `when`, such as
    /// `attributes["eval.case.id"]`, whose result is a text or an integer. `user_input` alone
    /// selects the case with the same `user_input`.
    pub key: Option<String>,
    /// Selection of the test case without `key`. `auto` looks for a case id in attributes and
    /// metadata, then compares the user's input, then the session id.
    #[serde(rename = "match")]
    pub match_by: Option<MatchBy>,
    /// JSON Lines and CSV: field with the name of the test case. A dot selects a nested field.
    /// Default `id`.
    #[default = "id"]
    pub id_field: String,
    /// JSON Lines and CSV: field with the criteria, an object or its JSON text. An empty field
    /// means that no call is expected. A dot selects a nested field. Default `criteria`.
    #[default = "criteria"]
    pub criteria_field: String,
    /// JSON Lines and CSV: field with the user's input. A dot selects a nested field. Default
    /// `user_input`.
    #[default = "user_input"]
    pub input_field: String,
    /// JSON Lines: field with the turns of a conversation, a list of objects with the user's input
    /// and the criteria of each turn. A dot selects a nested field. Default `turns`.
    #[default = "turns"]
    pub turns_field: String,
    /// UiPath eval sets: the evaluator whose criteria are used. Required if the file has several
    /// evaluators.
    pub evaluator: Option<String>,
    /// Eval sets of other systems: reads a map with the only key `$is` as a matcher. Default
    /// `false`.
    pub matchers: bool,
    /// Attribute of the root span with the criteria, as JSON.
    pub attribute: Option<String>,
}

/// Selection of a trace's test case without `key`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatchBy {
    /// By case id, else by the user's input, else by the session id.
    Auto,
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
    let help = "give `file` and `key` (or `match: auto`), or `attribute`";
    if let (Some(at), Some(_)) = (node.get("key"), settings.match_by) {
        let message = "`key` and `match` exclude each other".to_owned();
        return refuse(message, "leave one of them out", at.place);
    }
    let named_by = node.get("key").or_else(|| node.get("match"));
    match (settings.file.as_deref(), named_by, settings.attribute.as_deref()) {
        (Some(file), Some(key), None) => {
            let place = node.place_of("file");
            let tried = try_out(&template, &sample, place, errors);
            let key = match settings.match_by {
                Some(MatchBy::Auto) => Some(CaseKey::Auto),
                None => compile("key", key, sources, errors).map(CaseKey::Expression),
            };
            let path = sources.folder_of(place).join(file);
            let is_by_words = key.as_ref().is_some_and(CaseKey::is_words);
            let build =
                RowBuild { template: &template, is_by_words, matchers: settings.matchers, place };
            let rows = read_rows(&path, settings, &build, tried.is_some(), errors);
            Some(Expectations::dataset(key?, rows?))
        }
        (None, None, Some(attribute)) => {
            let place = node.place_of("attribute");
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

/// Builds the evaluator once with valid criteria, so that any error is in the settings.
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

/// Settings for building rows.
struct RowBuild<'a> {
    template: &'a Template,
    /// True if only the user's input selects cases, which must then be unique.
    is_by_words: bool,
    /// True if rows of imported files may hold matchers.
    matchers: bool,
    place: Place,
}

/// Reads the rows of a dataset and builds them.
fn read_rows(
    path: &Path,
    settings: &ExpectSettings,
    build: &RowBuild<'_>,
    is_right: bool,
    errors: &mut Vec<SettingsError>,
) -> Option<CaseRows> {
    let file = path.display();
    let place = build.place;
    let text = match read_file(path) {
        Ok(text) => text,
        Err(what) => {
            let message = format!("cannot read the dataset {file}: {what}");
            let help = match file.to_string() {
                it if it.contains("://") => "a dataset is a file: fetch it first",
                it if it.contains('*') => "one file is read: name it, or write its rows into one",
                _ if path.is_dir() => "name a file in it",
                _ => "a path from the folder of the config file",
            };
            errors.push(SettingsError::new(message).with_help(help).at(place));
            return None;
        }
    };
    let mut mistakes = Vec::new();
    let rows = dataset::read(path, &text, settings, build.template.kind, &mut mistakes);
    let built = if is_right { build.build(rows, &mut mistakes) } else { CaseRows::default() };
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

impl RowBuild<'_> {
    fn build(&self, rows: Vec<Row>, mistakes: &mut Vec<Mistake>) -> CaseRows {
        let mut built = CaseRows::default();
        let mut lines: HashMap<String, Option<usize>> = HashMap::new();
        let mut seen: HashSet<String> = HashSet::new();
        for Row { names, user_input, criteria, turns, line, is_imported } in rows {
            if criteria.is_none() && turns.iter().all(|turn| turn.criteria.is_none()) {
                let turns = turns.iter().map(|turn| &turn.user_input);
                built.add_empty(&names, user_input.iter().chain(turns));
                continue;
            }
            let is_literal = is_imported && !self.matchers;
            let case = names.first().map(String::as_str);
            let so_far = mistakes.len();
            for name in names.iter().filter(|name| !seen.insert((*name).clone())) {
                mistakes.push(Mistake::new(line, format!("case `{name}` comes twice")));
            }
            for turn in turns {
                if let Err(error) = self.turn(&turn, is_literal, case, &mut built)
                    && !is_imported
                {
                    let what = format!("turn {}: {}", turn.number, error.message);
                    mistakes.push(Mistake { line, what, help: error.help });
                }
            }
            let Some(criteria) = criteria.filter(|_| mistakes.len() == so_far) else { continue };
            let expectation = match self.expectation(&criteria, is_literal, case) {
                Ok(expectation) => expectation,
                Err(error) => {
                    mistakes.push(Mistake { line, what: error.message, help: error.help });
                    continue;
                }
            };
            let user_input = user_input.filter(|text| !words(text).is_empty());
            if let Some(text) = &user_input
                && !built.add_words(text, &expectation)
                && self.is_by_words
            {
                let first = lines.get(&words(text)).copied().flatten();
                let first = first.map(|line| format!(" (line {line})")).unwrap_or_default();
                let what = format!("another case{first} has the same `user_input`");
                let help = "name cases by something else, or leave one of them out".to_owned();
                mistakes.push(Mistake { line, what, help: Some(help) });
            }
            if user_input.is_none() && self.is_by_words {
                mistakes.push(Mistake::new(line, "the case has no `user_input`"));
            }
            user_input.map(|text| lines.entry(words(&text)).or_insert(line));
            for name in names {
                built.add(name, &expectation);
            }
        }
        built
    }

    /// Adds one turn. In an imported set an error in a turn concerns the whole case.
    fn turn(
        &self,
        turn: &CaseTurn,
        is_literal: bool,
        case: Option<&str>,
        built: &mut CaseRows,
    ) -> Result<(), SettingsError> {
        let case = case.unwrap_or_default();
        let name = format!("{case}, turn {}", turn.number);
        let build = |it| self.expectation(it, is_literal, Some(&name));
        let expectation = turn.criteria.as_ref().map(build).transpose()?;
        built.add_turn(&turn.user_input, case, expectation);
        Ok(())
    }

    /// Builds the evaluator of a case, or of one of its turns.
    fn expectation(
        &self,
        criteria: &Value<'_>,
        is_literal: bool,
        case: Option<&str>,
    ) -> Result<Arc<Expectation>, SettingsError> {
        let mut expectation = if is_literal {
            self.template.build_literal(criteria, self.place)?
        } else {
            self.template.build(criteria, self.place)?
        };
        if let Some(info) = Arc::get_mut(&mut expectation.info) {
            info.case = case.map(Into::into);
        }
        Ok(Arc::new(expectation))
    }
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
