//! Readers of datasets of test cases: their formats to rows of names and criteria.
//!
//! ```text
//! JSON Lines   {"id": "refund-1", "criteria": {...}}         one case each line; `user_input`,
//!                                                            `turns` too; or a list of them
//! CSV          id,criteria                                   with a header, criteria as JSON
//! ADK          {"eval_cases": [{"eval_id", "conversation"}]} criteria made of the expected calls
//!           [{"name", "data": [{"expected_tool_use", "reference"}]}]    its form of before 2025
//! UiPath       {"evaluations": [{"id", "name", "evaluationCriterias": {"<evaluator>": {...}}}]}
//! ```
//!
//! A file named `.csv` is CSV; one that is a single JSON object with `eval_cases` (`evalCases`) or
//! `evaluations`, or a single JSON list, is an eval set; any other is JSON Lines.

mod adk;
mod lines;

use std::path::Path;

use super::expect::ExpectSettings;
use spanscore_base::value::{Map, Value, json};
use spanscore_evaluate::Kind;
use spanscore_evaluate::engine::expect::criteria;

/// Limit on the rows of a dataset.
const ROWS_MAX: usize = 100_000;

/// Expectation of one case.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Its names, any of which a trace may give.
    pub(super) names: Vec<String>,
    /// The user's input, the first one of a conversation.
    pub(super) user_input: Option<String>,
    /// The criteria; `None` if only turns have some, or nothing does.
    pub(super) criteria: Option<Value<'static>>,
    /// Turns of a conversation, for traces with one turn each.
    pub(super) turns: Vec<CaseTurn>,
    /// Line of the row, from 1, if known.
    pub(super) line: Option<usize>,
    /// True for another system's eval set, which has no matchers.
    pub(super) is_imported: bool,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CaseTurn {
    /// Its number in the conversation, from 1.
    pub(super) number: usize,
    /// The user's input.
    pub(super) user_input: String,
    /// The criteria of this turn; `None` without expectations.
    pub(super) criteria: Option<Value<'static>>,
}

/// Error in a dataset.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mistake {
    /// Line of the error, from 1, if known.
    pub(super) line: Option<usize>,
    /// Description of the error.
    pub(super) what: String,
    /// Remedy.
    pub(super) help: Option<String>,
}

impl Mistake {
    /// Returns an error whose description includes the remedy.
    pub(super) fn new(line: Option<usize>, what: impl Into<String>) -> Self {
        Self { line, what: what.into(), help: None }
    }
}

/// Reads the rows of a dataset in its format; adds errors to `mistakes`.
pub(super) fn read(
    path: &Path,
    text: &str,
    settings: &ExpectSettings,
    kind: &Kind,
    mistakes: &mut Vec<Mistake>,
) -> Vec<Row> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
        let what = "a dataset is JSON Lines, CSV or an eval set in JSON, not YAML";
        mistakes.push(Mistake::new(None, what));
        return Vec::new();
    }
    let no_case = || Mistake {
        line: None,
        what: "the dataset holds no case".to_owned(),
        help: Some("write one, or make it of a recorded run: `spanscore learn`".to_owned()),
    };
    if text.trim().is_empty() {
        mistakes.push(no_case());
        return Vec::new();
    }
    let is_csv = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"));
    let whole = if is_csv { None } else { json::parse(text).ok() };
    let cases = |set: &Value<'_>| field(set, "eval_cases").and_then(Value::as_list).is_some();
    let evaluations = |set: &Value<'_>| set.get("evaluations").and_then(Value::as_list).is_some();
    let mut is_imported = true;
    let mut rows = match &whole {
        _ if is_csv => {
            is_imported = false;
            csv_rows(text, settings, mistakes)
        }
        Some(set) if cases(set) => adk::rows(set, text, kind, mistakes),
        Some(Value::List(cases)) if lines::is_row(cases.first(), settings) => {
            is_imported = false;
            lines::rows_of_list(cases, settings, kind, mistakes)
        }
        Some(Value::List(cases)) => adk::rows_of_list(cases, text, kind, mistakes),
        Some(set) if evaluations(set) => uipath_rows(set, text, settings, mistakes),
        _ => {
            is_imported = false;
            lines::rows(text, settings, kind, mistakes)
        }
    };
    rows.iter_mut().for_each(|row| row.is_imported = is_imported);
    if rows.is_empty() && mistakes.is_empty() {
        mistakes.push(no_case());
    } else if rows.len() > ROWS_MAX {
        mistakes.push(Mistake::new(None, format!("more than {ROWS_MAX} cases")));
        rows.clear();
    }
    rows
}

fn csv_rows(text: &str, settings: &ExpectSettings, mistakes: &mut Vec<Mistake>) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut column = |wanted: &str| {
        reader.headers().ok().and_then(|names| names.iter().position(|n| n == wanted))
    };
    let id = column(&settings.id_field);
    let criteria = column(&settings.criteria_field);
    let wanted = [(id, "id_field", &settings.id_field)];
    let wanted = wanted.into_iter().chain([(criteria, "criteria_field", &settings.criteria_field)]);
    let missing = wanted.filter(|(at, ..)| at.is_none());
    let header = text.lines().next().unwrap_or_default();
    mistakes.extend(missing.map(|(_, setting, name)| {
        let what = format!("the header has no column `{name}`");
        let help = match [';', '\t'].into_iter().find(|sign| header.contains(*sign)) {
            Some(sign) if !header.contains(',') => {
                format!("its columns are separated by {sign:?}: write commas")
            }
            _ => format!("name another column with `{setting}`"),
        };
        Mistake { line: Some(1), what, help: Some(help) }
    }));
    let (Some(id), Some(criteria)) = (id, criteria) else { return Vec::new() };
    let headers = reader.headers().ok();
    let said = headers.and_then(|names| names.iter().position(|n| n == settings.input_field));
    let mut rows = Vec::new();
    for record in reader.records().take(ROWS_MAX + 1) {
        let (row, position) = match record {
            Ok(record) => {
                let cell = |at: usize| record.get(at).unwrap_or_default();
                let text = Value::from(cell(criteria));
                let row = match cell(id) {
                    "" => Err(format!("the case has no `{}`", settings.id_field)),
                    name => criteria_or_none(&text).map(|read| {
                        let user_input = said.map(|at| cell(at).to_owned());
                        (
                            NamedCase {
                                names: vec![name.to_owned()],
                                user_input,
                                ..NamedCase::default()
                            },
                            read,
                        )
                    }),
                };
                (row, record.position().cloned())
            }
            Err(error) => {
                let position = error.position().cloned();
                (Err(error.to_string()), position)
            }
        };
        let line = position.and_then(|position| csv_line(text, &position));
        push(row, line, &mut rows, mistakes);
    }
    rows
}

/// Returns the line of a record. After a CR LF line end the reader's position is between the two.
fn csv_line(text: &str, position: &csv::Position) -> Option<usize> {
    let byte = usize::try_from(position.byte()).ok()?;
    let is_between = text.as_bytes().get(byte) == Some(&b'\n');
    Some(usize::try_from(position.line()).ok()? + usize::from(is_between))
}

/// Reads the eval set of UiPath: `UiPath/uipath-python`, `eval/models`. Null criteria mean the
/// evaluator's defaults.
fn uipath_rows(
    set: &Value<'_>,
    text: &str,
    settings: &ExpectSettings,
    mistakes: &mut Vec<Mistake>,
) -> Vec<Row> {
    let evaluations = list(set, "evaluations");
    if evaluations.is_empty() {
        return Vec::new();
    }
    let written = |evaluation| field(evaluation, "evaluation_criterias").and_then(Value::as_map);
    let mut known: Vec<&str> = Vec::new();
    for (name, _) in evaluations.iter().filter_map(written).flat_map(Map::iter) {
        if !known.contains(&name) && known.len() <= EVALUATORS_SHOWN {
            known.push(name);
        }
    }
    let evaluator = match (settings.evaluator.as_deref(), known.as_slice()) {
        (Some(named), _) if known.contains(&named) => named,
        (None, [only]) => only,
        (named, _) => {
            let what = match named {
                Some(named) => format!("no evaluation has criteria of `{named}`"),
                None => "which evaluator's criteria are meant is not said".to_owned(),
            };
            let help = Some(format!("`evaluator` may be {}", known.join(", ")));
            mistakes.push(Mistake { line: None, what, help });
            return Vec::new();
        }
    };
    let mut rows = Vec::new();
    let mut lines = Lines::new(text);
    for evaluation in evaluations.iter().take(ROWS_MAX + 1) {
        let mut names: Vec<_> =
            ["id", "name"].iter().filter_map(|key| name_of(evaluation.get(key)?)).collect();
        names.dedup();
        let line = names.first().and_then(|name| lines.of(name));
        let found = written(evaluation).and_then(|all| all.get(evaluator));
        let row = match names.as_slice() {
            [] => Err("an evaluation has no `id`".to_owned()),
            _ => {
                let criteria = found.map(|criteria| criteria.clone().into_owned());
                Ok((NamedCase { names, ..NamedCase::default() }, criteria))
            }
        };
        push(row, line, &mut rows, mistakes);
    }
    rows
}

/// Limit on evaluators listed in an error, plus one.
const EVALUATORS_SHOWN: usize = 20;

/// Names of a case, the user's input, and its turns if there are several.
#[derive(Default)]
struct NamedCase {
    names: Vec<String>,
    user_input: Option<String>,
    turns: Vec<CaseTurn>,
}

/// Adds a row, or an error.
fn push(
    row: Result<(NamedCase, Option<Value<'static>>), String>,
    line: Option<usize>,
    rows: &mut Vec<Row>,
    mistakes: &mut Vec<Mistake>,
) {
    match row {
        Ok((NamedCase { names, user_input, turns }, criteria)) => {
            rows.push(Row { names, user_input, criteria, turns, line, is_imported: false });
        }
        Err(what) => mistakes.push(Mistake::new(line, what)),
    }
}

/// Reads criteria; `None` if a row leaves them empty.
fn criteria_or_none(value: &Value<'_>) -> Result<Option<Value<'static>>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        value => criteria(value).map(|read| Some(read.into_owned())),
    }
}

/// Limits on the listed keys of a case, and on the characters of each.
const KEYS_SHOWN: usize = 10;
const KEY_CHARS_SHOWN: usize = 40;

fn name_at(value: &Value<'_>, path: &str) -> Result<String, String> {
    let found = at_path(value, path).ok_or_else(|| {
        let keys = value.as_map().into_iter().flat_map(Map::iter).map(|(key, _)| key);
        let cut = |key: &str| key.chars().take(KEY_CHARS_SHOWN).collect::<String>();
        let keys: Vec<String> = keys.take(KEYS_SHOWN).map(cut).collect();
        if keys.is_empty() {
            return format!("the case has no `{path}`");
        }
        let keys = keys.join(", ");
        format!("the case has no `{path}`, but {keys}: name another field with `id_field`")
    })?;
    name_of(found).ok_or_else(|| format!("`{path}` is neither a text nor a number"))
}

fn name_of(value: &Value<'_>) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the value at a path; a dot may also be part of a key.
fn at_path<'v, 'a>(value: &'v Value<'a>, path: &str) -> Option<&'v Value<'a>> {
    value.get(path).or_else(|| {
        path.match_indices('.').find_map(|(at, _)| {
            value.get(&path[..at]).and_then(|inner| at_path(inner, &path[at + 1..]))
        })
    })
}

/// Returns a field by its name in snake case or camel case.
fn field<'v, 'a>(value: &'v Value<'a>, snake: &str) -> Option<&'v Value<'a>> {
    let found = value.get(snake).or_else(|| {
        let mut words = snake.split('_');
        let mut camel = words.next().unwrap_or_default().to_owned();
        for word in words {
            let (first, rest) = word.split_at(word.len().min(1));
            camel.push_str(&first.to_ascii_uppercase());
            camel.push_str(rest);
        }
        value.get(&camel)
    });
    found.filter(|found| !found.is_null())
}

fn list<'v, 'a>(value: &'v Value<'a>, snake: &str) -> &'v [Value<'a>] {
    field(value, snake).and_then(Value::as_list).unwrap_or_default()
}

/// Finder of the lines of names that appear in a text as JSON strings, in order.
struct Lines<'t> {
    rest: Option<&'t str>,
    line: usize,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Self { rest: Some(text), line: 1 }
    }

    /// Returns the line, from 1; `None` for a name in another notation.
    fn of(&mut self, name: &str) -> Option<usize> {
        let rest = self.rest?;
        let found = rest.find(&Value::from(name).to_string());
        self.rest = found.and_then(|at| rest.get(at..));
        self.line += rest[..found?].matches('\n').count();
        Some(self.line)
    }
}

#[cfg(test)]
mod tests;
