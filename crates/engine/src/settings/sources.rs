//! Sources of settings, and errors shown at their places.
//!
//! Places are only lines and columns. Line numbers continue over all sources, so that one number
//! identifies the file: the second file starts where the first ends.

use std::fmt;
use std::path::{Path, PathBuf};

use super::secrets::{masked, masked_line, secrets_of};
use super::substitute;
use spanscore_base::settings::yaml::Written;
use spanscore_base::settings::yaml::scalar::{self, ScalarForm};
use spanscore_base::settings::{Node, NodeKind, Place, SettingsError};
use spanscore_base::visible;

/// Longest shown part of a source line, characters.
const LINE_CHARS_MAX: usize = 120;

/// Sources of a config.
#[derive(Debug, Default)]
pub struct ConfigSources {
    texts: Vec<SourceText>,
    references: Vec<Reference>,
    /// The secret texts; `None` until everything is read.
    secrets: Option<Vec<String>>,
}

#[derive(Debug)]
struct SourceText {
    name: String,
    text: String,
    line_offset: u32,
    /// True for an option of the command, which has no lines.
    is_option: bool,
}

/// Scalar with at least a part from the environment.
#[derive(Debug)]
struct Reference {
    place: Place,
    written: String,
    form: ScalarForm,
    values: Vec<(String, String)>,
}

impl ConfigSources {
    /// Adds a text; its line numbers follow those of the others. Returns the offset of its lines.
    pub(super) fn add(&mut self, name: &str, text: &str) -> u32 {
        let line_offset = self.texts.last().map_or(0, |last| {
            let lines = last.text.lines().count() + 1;
            last.line_offset.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX))
        });
        self.texts.push(SourceText {
            name: name.to_owned(),
            text: text.to_owned(),
            line_offset,
            is_option: false,
        });
        line_offset
    }

    /// Adds the text of a `--set`, which is named by its number among them, as [`Self::add`].
    pub(super) fn add_set(&mut self, text: &str) -> u32 {
        let number = self.texts.iter().filter(|source| source.is_option).count() + 1;
        let line_offset = self.add(&format!("--set {number}"), text);
        self.texts.last_mut().into_iter().for_each(|source| source.is_option = true);
        line_offset
    }

    /// Returns the names of files without a setting.
    pub(super) fn blank(&self) -> impl Iterator<Item = &str> {
        let is_blank = |text: &str| {
            let mut lines = text.lines().map(str::trim);
            lines.all(|line| line.is_empty() || line.starts_with('#') || line == "---")
        };
        let blank = self.texts.iter().filter(move |source| is_blank(&source.text));
        blank.map(|source| source.name.as_str())
    }

    /// Collects the secrets of the config, for masking.
    pub fn learn_secrets(&mut self, node: &Node) {
        self.secrets = Some(secrets_of(node));
    }

    /// Returns a source line with secrets masked.
    fn shown(&self, line: &str) -> String {
        match &self.secrets {
            Some(secrets) => masked(line, secrets),
            None => masked_line(line).into_owned(),
        }
    }

    /// Types a scalar after replacing its environment references, which are recorded.
    pub(super) fn resolve(
        &mut self,
        written: &Written<'_>,
        lookup: substitute::Lookup<'_>,
    ) -> Result<NodeKind, SettingsError> {
        let Some(found) = substitute::substitute(written.text, lookup)? else {
            return scalar::typed(written.text, written.form);
        };
        let form = match written.form {
            ScalarForm::Plain if !found.whole => ScalarForm::Quoted,
            form => form,
        };
        if !found.values.is_empty() {
            self.references.push(Reference {
                place: written.place,
                written: written.text.to_owned(),
                form,
                values: found.values,
            });
        }
        scalar::typed(&found.text, form)
    }

    /// Returns the environment reference at a place, and the source of its type:
    /// [`ScalarForm::Plain`] only for a single reference without quotes.
    pub fn reference(&self, place: Place) -> Option<(&str, ScalarForm)> {
        self.reference_at(place).map(|reference| (reference.written.as_str(), reference.form))
    }

    fn reference_at(&self, place: Place) -> Option<&Reference> {
        self.references.iter().find(|reference| reference.place == place)
    }

    fn source_of(&self, place: Place) -> Option<&SourceText> {
        self.texts.iter().rev().find(|source| source.line_offset < place.line)
    }

    /// Returns the folder of a place's file; empty, which means the working directory, without a
    /// file or folder.
    pub fn folder_of(&self, place: Place) -> PathBuf {
        let folder = self.source_of(place).and_then(|source| Path::new(&source.name).parent());
        folder.map(Path::to_path_buf).unwrap_or_default()
    }

    /// Returns the place of a character inside a scalar: exact if the source shows the scalar
    /// unchanged, else the place of the scalar. `line` and `column` count from 0.
    pub fn place_within(&self, scalar: Place, text: &str, line: u32, column: u32) -> Place {
        let Some(source) = self.source_of(scalar) else { return scalar };
        let Some(wanted) = text.lines().nth(line as usize) else { return scalar };
        let shown = (scalar.line - source.line_offset).saturating_sub(1).saturating_add(line);
        let Some(shown) = source.text.lines().nth(shown as usize) else { return scalar };
        if line == 0 {
            let rest: String = shown.chars().skip(scalar.column as usize - 1).collect();
            let quoted = u32::from(rest.starts_with(['"', '\'']));
            let exact = rest.chars().skip(quoted as usize).collect::<String>().starts_with(wanted);
            return if exact {
                Place { column: scalar.column + quoted + column, ..scalar }
            } else {
                scalar
            };
        }
        // A block scalar shows its lines unchanged, indented.
        let indent = |text: &str| (text.chars().count() - text.trim_start().chars().count()) as u32;
        if shown.trim() == wanted.trim() {
            Place {
                line: scalar.line + line,
                column: (indent(shown) + 1 + column).saturating_sub(indent(wanted)),
            }
        } else {
            scalar
        }
    }

    /// Returns an error with its file, line and source text; values from the environment are
    /// masked.
    pub fn problem(&self, error: SettingsError) -> ConfigProblem {
        let mut problem =
            ConfigProblem { at: None, message: error.message, help: error.help, shown: None };
        let reference = error.place.and_then(|place| self.reference_at(place));
        if let Some(reference) = reference {
            mask(&mut problem.message, &reference.values, 1);
            let typed_otherwise = problem.message.contains("expected a text");
            if reference.form == ScalarForm::Plain && typed_otherwise && problem.help.is_none() {
                problem.help =
                    Some(format!("where text is meant, quote it: \"{}\"", reference.written));
            }
        }
        for other in &self.references {
            mask(&mut problem.message, &other.values, SECRET_CHARS_MIN);
        }
        let secrets = self.secrets.as_deref().unwrap_or_default();
        problem.message = masked(&problem.message, secrets);
        problem.help = problem.help.map(|help| masked(&help, secrets));
        let Some(place) = error.place else { return problem };
        if let Some(source) = self.source_of(place) {
            let line = place.line - source.line_offset;
            problem.at = Some(ProblemPlace {
                source: source.name.clone(),
                line: (!source.is_option).then_some(line),
                column: place.column,
            });
            problem.shown = source.text.lines().nth(line as usize - 1).map(|line| self.shown(line));
        }
        problem
    }
}

/// Shortest value masked wherever it occurs; shorter ones are masked only at their places.
const SECRET_CHARS_MIN: usize = 4;

fn mask(message: &mut String, values: &[(String, String)], chars_min: usize) {
    for (reference, value) in values.iter().filter(|(_, value)| value.len() >= chars_min) {
        let escaped = format!("{value:?}");
        let escaped = escaped.trim_matches('"');
        for form in [value.as_str(), escaped, value.trim()] {
            if !form.is_empty() && message.contains(form) {
                *message = message.replace(form, reference);
            }
        }
    }
}

/// Place of a mistake: `file:line:column`, or the option of the command.
#[derive(Debug, Clone, PartialEq)]
pub struct ProblemPlace {
    /// File or option.
    source: String,
    /// Line of a file, from 1.
    line: Option<u32>,
    /// Column, from 1.
    column: u32,
}

impl fmt::Display for ProblemPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", visible::line(&self.source))?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}:{}", self.column))
    }
}

/// Mistake in a config.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigProblem {
    /// Place, if known.
    pub at: Option<ProblemPlace>,
    /// Description of the mistake.
    pub message: String,
    /// Remedy.
    pub help: Option<String>,
    /// The source line.
    shown: Option<String>,
}

impl ConfigProblem {
    /// Returns an error without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self { at: None, message: message.into(), help: None, shown: None }
    }
}

/// Writes `file:line:column: message`, the source line with a caret, and the help. A config may be
/// untrusted, so everything is made [`visible`].
impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only our own lines begin at the left; those of a message are indented.
        let message = visible::lines(&self.message).to_string().replace('\n', "\n    ");
        let help = self.help.as_ref().map(visible::line);
        let Some(at) = &self.at else {
            write!(f, "{message}")?;
            return match help {
                Some(help) => write!(f, "\n  = help: {help}"),
                None => Ok(()),
            };
        };
        write!(f, "{at}: {message}")?;
        let number = at.line.map(|line| line.to_string()).unwrap_or_default();
        let margin = " ".repeat(number.len());
        if let Some(shown) = &self.shown {
            let (shown, indent, length) = excerpt(shown, at.column as usize - 1);
            write!(f, "\n{margin} |\n{number} | {shown}")?;
            write!(f, "\n{margin} | {}{}", " ".repeat(indent), "^".repeat(length))?;
        }
        match help {
            Some(help) => write!(f, "\n{margin} = help: {help}"),
            None => Ok(()),
        }
    }
}

/// Returns the part of a line around a character, the index of the character in it, and the length
/// of the word that starts there.
fn excerpt(line: &str, at: usize) -> (String, usize, usize) {
    let chars: Vec<char> = line.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    let skip = at.saturating_sub(LINE_CHARS_MAX * 2 / 3);
    let part = |from: usize, count: usize| {
        let text: String = chars.iter().skip(from).take(count).collect();
        visible::line(text).to_string()
    };
    let before = part(skip, at - skip);
    let rest = part(at, LINE_CHARS_MAX - (at - skip));
    let indent = before.chars().count();
    let word = chars
        .iter()
        .skip(at)
        .take(LINE_CHARS_MAX / 3)
        .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.'))
        .count();
    (format!("{before}{rest}").trim_end().to_owned(), indent, word.max(1))
}

/// All errors in a config.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct ConfigError {
    /// The errors in the order of the files.
    pub problems: Vec<ConfigProblem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index > 0 { "\n\n" } else { "" })?;
        }
        Ok(())
    }
}

/// Returns the distinct errors in the order of their places, as shown.
pub fn report(mut errors: Vec<SettingsError>, sources: &ConfigSources) -> ConfigError {
    errors.sort_by_key(|error| error.place.map(|place| (place.line, place.column)));
    errors.dedup();
    ConfigError { problems: errors.into_iter().map(|error| sources.problem(error)).collect() }
}
