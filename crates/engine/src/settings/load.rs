//! Config loader: merges files, built-in defaults and single values to one tree of settings.
//!
//! Files are merged in order: maps entry by entry; otherwise the later value wins. A section
//! missing in all files comes from the built-in config. Then each `--set` replaces the value at its
//! key.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::sources::{ConfigError, ConfigProblem, ConfigSources};
use super::substitute::Lookup;
use spanscore_base::settings::{Key, Node, NodeKind, Place, SettingsError, yaml};

/// Part of a config.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigPart {
    /// A file in YAML or JSON.
    File(PathBuf),
    /// A text with the name shown in errors.
    Text {
        /// The name.
        name: String,
        /// YAML or JSON.
        text: String,
    },
    /// `path.to.key=value`, the value in YAML.
    Set(String),
}

/// Config as read: merged, with references replaced, unchecked.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub node: Node,
    /// Sources of the settings.
    pub sources: ConfigSources,
}

/// Reads and merges the parts: files in order, then missing sections from `defaults`, then single
/// values. `lookup` reads an environment variable.
pub fn load(
    parts: &[ConfigPart],
    defaults: &str,
    lookup: Lookup<'_>,
) -> Result<Loaded, ConfigError> {
    let mut reader =
        ConfigReader { lookup, sources: ConfigSources::default(), problems: Vec::new() };
    let mut node = Node { kind: NodeKind::Map(Vec::new()), place: Place::default() };
    for part in parts {
        match part {
            ConfigPart::File(path) => match read_text(path) {
                Ok(text) => reader.merge_file(&mut node, &path.display().to_string(), &text),
                Err(what) => reader.problems.push(ConfigProblem::new(what)),
            },
            ConfigPart::Text { name, text } => reader.merge_file(&mut node, name, text),
            ConfigPart::Set(_) => {}
        }
    }
    let mut built_in = Node::default();
    // After an error the built-in sections are useless.
    if reader.problems.is_empty() {
        reader.merge_file(&mut built_in, "<built-in>", defaults);
    }
    if let (NodeKind::Map(sections), NodeKind::Map(known)) = (&mut node.kind, built_in.kind) {
        for (key, section) in known {
            if !sections.iter().any(|(own, _)| own.text == key.text) {
                sections.push((key, section));
            }
        }
    }
    for part in parts {
        if let ConfigPart::Set(text) = part {
            reader.merge_set(&mut node, text);
        }
    }
    let ConfigReader { mut sources, problems, .. } = reader;
    if problems.is_empty() {
        sources.learn_secrets(&node);
    }
    if problems.is_empty() { Ok(Loaded { node, sources }) } else { Err(ConfigError { problems }) }
}

/// Reads a file; an error names it, and the place of invalid UTF-8.
fn read_text(path: &Path) -> Result<String, String> {
    let name = path.display();
    let bytes = std::fs::read(path).map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::IsADirectory => "; name the file in it",
            ErrorKind::NotFound if path == Path::new("-") => "; standard input is /dev/stdin here",
            // `-config FILE`, of which `-c` takes the rest.
            ErrorKind::NotFound if name.to_string().starts_with("onfig") => {
                "; a long option has two dashes: `--config FILE`"
            }
            _ => "",
        };
        format!("cannot read {name}: {error}{remedy}")
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to());
        let before = String::from_utf8_lossy(good.unwrap_or_default());
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("{name}:{line}:{column}: this is not UTF-8: save the file in that encoding")
    })
}

struct ConfigReader<'a> {
    lookup: Lookup<'a>,
    sources: ConfigSources,
    problems: Vec<ConfigProblem>,
}

impl ConfigReader<'_> {
    fn merge_file(&mut self, node: &mut Node, name: &str, text: &str) {
        let line_offset = self.sources.add(name, text);
        let read = read_file(text, line_offset, &mut self.sources, self.lookup);
        self.merge(node, read, usize::MAX);
    }

    fn merge_set(&mut self, node: &mut Node, text: &str) {
        let line_offset = self.sources.add_set(text);
        let read = read_set(text, line_offset, &mut self.sources, self.lookup);
        let levels = text.split('=').next().unwrap_or_default().split('.').count();
        self.merge(node, read, levels);
    }

    fn merge(&mut self, node: &mut Node, read: Result<Node, Vec<SettingsError>>, levels: usize) {
        match read {
            Ok(read) => merge(node, read, levels),
            Err(errors) => {
                let problems = errors.into_iter().map(|error| self.sources.problem(error));
                self.problems.extend(problems);
            }
        }
    }
}

/// Reads an environment variable of the process; a value that is not UTF-8 counts as unset.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn read_file(
    text: &str,
    line_offset: u32,
    sources: &mut ConfigSources,
    lookup: Lookup<'_>,
) -> Result<Node, Vec<SettingsError>> {
    let node = yaml::parse(text, line_offset, &mut |written| sources.resolve(&written, lookup))?;
    match node.kind {
        NodeKind::Map(_) => Ok(node),
        NodeKind::Null => Ok(Node { kind: NodeKind::Map(Vec::new()), place: node.place }),
        _ => Err(vec![SettingsError::new("a config is a map of settings").at(node.place)]),
    }
}

fn read_set(
    text: &str,
    line_offset: u32,
    sources: &mut ConfigSources,
    lookup: Lookup<'_>,
) -> Result<Node, Vec<SettingsError>> {
    let start = Place { line: line_offset + 1, column: 1 };
    let Some((path, value)) = text.split_once('=') else {
        return Err(vec![
            SettingsError::new("a setting without a value")
                .with_help("write path.to.key=value")
                .at(start),
        ]);
    };
    let shift = u32::try_from(path.chars().count()).unwrap_or(0) + 1;
    let mut node = yaml::parse(value, line_offset, &mut |mut written| {
        written.place = shifted(written.place, shift);
        sources.resolve(&written, lookup)
    })
    .map_err(|errors| {
        errors.into_iter().map(|error| shift_error(error, shift)).collect::<Vec<_>>()
    })?;
    node.change_places(&|place| shifted(place, shift));
    let mut end = u32::try_from(path.chars().count()).unwrap_or(0) + 1;
    for key in path.rsplit('.') {
        let column = end.saturating_sub(u32::try_from(key.chars().count()).unwrap_or(0));
        end = column.saturating_sub(1);
        let place = Place { line: start.line, column: column.max(1) };
        if key.is_empty() {
            return Err(vec![SettingsError::new("an empty key").at(place)]);
        }
        let key = Key { text: key.to_owned(), place };
        node = Node { kind: NodeKind::Map(vec![(key, node)]), place };
    }
    Ok(node)
}

fn shifted(place: Place, shift: u32) -> Place {
    Place { column: place.column + shift, ..place }
}

fn shift_error(mut error: SettingsError, shift: u32) -> SettingsError {
    error.place = error.place.map(|place| shifted(place, shift));
    error
}

/// Merges maps entry by entry down to this many levels; otherwise the new value wins.
fn merge(into: &mut Node, from: Node, levels: usize) {
    match (&mut into.kind, from.kind) {
        (NodeKind::Map(old), NodeKind::Map(new)) if levels > 0 => {
            into.place = from.place;
            for (key, node) in new {
                match old.iter_mut().find(|(known, _)| known.text == key.text) {
                    Some((known, value)) => {
                        known.place = key.place;
                        merge(value, node, levels - 1);
                    }
                    None => old.push((key, node)),
                }
            }
        }
        (_, kind) => *into = Node { kind, place: from.place },
    }
}
