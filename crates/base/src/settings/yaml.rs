//! YAML reader: text to a tree of settings with places.
//!
//! Parser events become [`Node`]s. Plain scalars are typed by the core schema of YAML 1.2; quoted
//! ones are text. A repeated key is an error that names both places. Aliases are expanded to
//! copies, and `<<` merges maps. JSON is YAML. A map or list that starts below its key has the
//! key's place, where a reader looks for a missing entry.
//!
//! Limits: [`TEXT_BYTES_MAX`], [`DEPTH_MAX`], [`NODES_MAX`] (after expansion of aliases).

pub mod scalar;
mod stand_in;

use granit_parser::{Event, Marker, Options, Parser, ScalarStyle, StructureStyle, Tag};
use hashbrown::HashMap;

use self::scalar::ScalarForm;
use self::stand_in::StandIns;
use super::{Key, Node, NodeKind, Place, SettingsError};

/// Longest accepted text, bytes.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// Deepest nesting.
const DEPTH_MAX: usize = 128;
/// Largest number of nodes, which bounds the expansion of aliases.
const NODES_MAX: usize = 1_000_000;

/// Scalar from the parser.
pub struct Written<'a> {
    /// Its text with resolved escapes.
    pub text: &'a str,
    /// Source of its type.
    pub form: ScalarForm,
    /// Place of the scalar.
    pub place: Place,
}

/// Converts a scalar to a value, and substitutes variables.
pub(crate) type Resolve<'a> = &'a mut dyn FnMut(Written<'_>) -> Result<NodeKind, SettingsError>;

/// Reads one document without substitutions.
///
/// # Errors
/// The first error, with its place.
pub fn read(text: &str) -> Result<Node, SettingsError> {
    parse(text, 0, &mut |written| scalar::typed(written.text, written.form))
        .map_err(|mut errors| errors.swap_remove(0))
}

/// Remedies of syntax errors, by the start of the parser's message.
const SYNTAX_HELP: &[(&str, &str)] = &[
    ("tabs disallowed", "indent with spaces"),
    ("unclosed bracket", "it has no end: close it"),
    ("invalid trailing content after double-quoted", "put a text that holds \" between '"),
    (
        "mapping values are not allowed",
        "give all keys of a map the same indent, and put a text that holds `: ` between quotes",
    ),
    (
        "while parsing a flow mapping, did not find expected",
        "close it, or put a text that holds { or } between quotes",
    ),
    ("while parsing node, found unknown anchor", "put a text that begins with * between quotes"),
    ("unexpected character: `@'", "put a text that begins with @ between quotes"),
    ("unexpected character: `%'", "put a text that begins with % between quotes"),
    (
        "did not find expected <document start>",
        "a config is YAML, maps of `key: value` by indent, or JSON",
    ),
];

/// Reads one document. `line_offset` is added to every line.
///
/// # Errors
/// All errors, at least one.
pub fn parse(
    text: &str,
    line_offset: u32,
    resolve: Resolve<'_>,
) -> Result<Node, Vec<SettingsError>> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(vec![SettingsError::new(format!("larger than {TEXT_BYTES_MAX} bytes"))]);
    }
    let (text, stand_ins) = StandIns::replace(text);
    let mut reader = YamlReader::new(line_offset, resolve, stand_ins);
    let mut options = Options::default();
    options.set_emit_comments(false);
    for event in Parser::new_from_str_with_options(&text, options) {
        let taken = match event {
            Ok((event, span)) => reader.take(event, reader.place(&span.start)),
            Err(error) => {
                let place = reader.place(error.marker());
                let message = error.kind().to_string();
                let message = reader.stand_ins.restore(&message);
                let help = SYNTAX_HELP.iter().find(|(start, _)| message.starts_with(start));
                let error = SettingsError::new(message.clone()).at(place);
                reader.errors.push(match help {
                    Some((_, help)) => error.with_help(*help),
                    None => error,
                });
                break;
            }
        };
        if let Err(fatal) = taken {
            reader.errors.push(fatal);
            break;
        }
    }
    if reader.errors.is_empty() { Ok(reader.root) } else { Err(reader.errors) }
}

struct YamlReader<'a> {
    line_offset: u32,
    resolve: Resolve<'a>,
    stand_ins: StandIns,
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Node>,
    node_count: usize,
    document_count: usize,
    root: Node,
    errors: Vec<SettingsError>,
}

/// Open list or map.
struct OpenCollection {
    node: Node,
    anchor: usize,
    /// The key of the next value, and true if it was written without quotes.
    key: Option<(Key, bool)>,
    /// Place of each key.
    keys: HashMap<String, Place>,
    /// Maps merged by `<<`.
    merged: Vec<Node>,
}

impl<'a> YamlReader<'a> {
    fn new(line_offset: u32, resolve: Resolve<'a>, stand_ins: StandIns) -> Self {
        Self {
            line_offset,
            resolve,
            stand_ins,
            open: Vec::new(),
            anchors: HashMap::new(),
            node_count: 0,
            document_count: 0,
            root: Node::default(),
            errors: Vec::new(),
        }
    }

    fn place(&self, mark: &Marker) -> Place {
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Place {
            line: number(mark.line()).saturating_add(self.line_offset),
            column: number(mark.col()).saturating_add(1),
        }
    }

    /// Handles one event; an error ends the reading.
    fn take(&mut self, event: Event<'_>, place: Place) -> Result<(), SettingsError> {
        match event {
            Event::DocumentStart(..) => {
                self.document_count += 1;
                if self.document_count > 1 {
                    return Err(SettingsError::new("a second document in one file")
                        .with_help("give it as a file of its own")
                        .at(place));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), place)
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.start(NodeKind::List(Vec::new()), style, anchor, tag.as_deref(), place)
            }
            Event::MappingStart(style, anchor, tag) => {
                self.start(NodeKind::Map(Vec::new()), style, anchor, tag.as_deref(), place)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, place),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        place: Place,
    ) -> Result<(), SettingsError> {
        let form = match tag {
            None if style == ScalarStyle::Plain => Ok(ScalarForm::Plain),
            None => Ok(ScalarForm::Quoted),
            Some(tag) => scalar_form(tag, text),
        };
        let is_quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
        let form = match self.stand_ins.first_in(text) {
            Some(char) if !is_quoted => Err(outside_of_quotes(char)),
            _ => form,
        };
        let text = &*self.stand_ins.restore(text);
        let is_key = self.expects_key();
        let kind = form.and_then(|form| match (is_key, form) {
            // Keys are always texts.
            (true, ScalarForm::Plain) => scalar::typed(text, ScalarForm::Quoted),
            (true, form) => scalar::typed(text, form),
            (false, form) => (self.resolve)(Written { text, form, place }),
        });
        let kind = kind.unwrap_or_else(|error| {
            self.errors.push(error.at(place));
            NodeKind::Null
        });
        let node = Node { kind, place };
        if is_key {
            if anchor > 0 {
                self.anchors.insert(anchor, node);
            }
            let is_plain = style == ScalarStyle::Plain && tag.is_none();
            return self.key(text.to_owned(), is_plain, place);
        }
        self.put(node, anchor, 1)
    }

    fn start(
        &mut self,
        kind: NodeKind,
        style: StructureStyle,
        anchor: usize,
        tag: Option<&Tag>,
        place: Place,
    ) -> Result<(), SettingsError> {
        let own = if matches!(kind, NodeKind::Map(_)) { "map" } else { "seq" };
        match tag.map(|tag| (tag, tag.core_suffix())) {
            Some((_, Some(name))) if name != own => {
                let what = if own == "map" { "a map" } else { "a list" };
                self.errors.push(misplaced_tag(name, what).at(place));
            }
            Some((tag, None)) if !is_non_specific(tag) => {
                self.errors.push(unknown_tag(tag, "").at(place));
            }
            _ => {}
        }
        if self.expects_key() {
            return Err(SettingsError::new("a key must be a word, not a list or map").at(place));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(
                SettingsError::new(format!("nested deeper than {DEPTH_MAX} levels")).at(place)
            );
        }
        let below = self.open.last().and_then(|open| open.key.as_ref());
        let place = match (style, below) {
            (StructureStyle::Block, Some((key, _))) => key.place,
            _ => place,
        };
        self.open.push(OpenCollection {
            node: Node { kind, place },
            anchor,
            key: None,
            keys: HashMap::new(),
            merged: Vec::new(),
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), SettingsError> {
        let Some(mut open) = self.open.pop() else { return Ok(()) };
        if let NodeKind::Map(entries) = &mut open.node.kind {
            for (key, node) in open.merged.iter().flat_map(Node::entries) {
                if !open.keys.contains_key(&key.text) {
                    open.keys.insert(key.text.clone(), key.place);
                    entries.push((key.clone(), node.clone()));
                }
            }
        }
        self.put(open.node, open.anchor, 1)
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<(), SettingsError> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(SettingsError::new("an alias to a value that has not ended").at(place));
        };
        if self.expects_key() {
            return match node.kind {
                NodeKind::Scalar(value) => self.key(value.to_text().into_owned(), false, place),
                _ => Err(SettingsError::new("a key must be a word").at(place)),
            };
        }
        if self.open.len() + depth(&node) > DEPTH_MAX {
            return Err(
                SettingsError::new(format!("nested deeper than {DEPTH_MAX} levels")).at(place)
            );
        }
        let count = count(&node);
        self.put(node, 0, count)
    }

    fn expects_key(&self) -> bool {
        self.open
            .last()
            .is_some_and(|open| matches!(open.node.kind, NodeKind::Map(_)) && open.key.is_none())
    }

    fn key(&mut self, text: String, plain: bool, place: Place) -> Result<(), SettingsError> {
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        if let Some(first) = open.keys.insert(text.clone(), place)
            && !(plain && text == "<<")
        {
            let line = first.line - self.line_offset;
            let column = first.column;
            self.errors.push(
                SettingsError::new(format!("`{text}` is given twice"))
                    .with_help(format!("it was first given at line {line}, column {column}"))
                    .at(place),
            );
        }
        open.key = Some((Key { text, place }, plain));
        Ok(())
    }

    /// Adds a complete node to the innermost open collection.
    fn put(&mut self, node: Node, anchor: usize, count: usize) -> Result<(), SettingsError> {
        self.node_count += count;
        if self.node_count > NODES_MAX {
            return Err(SettingsError::new(format!("more than {NODES_MAX} values")).at(node.place));
        }
        if anchor > 0 {
            self.node_count += self::count(&node);
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = node;
            return Ok(());
        };
        match (&mut open.node.kind, open.key.take()) {
            (NodeKind::Map(_), Some((key, true))) if key.text == "<<" => match node.kind {
                NodeKind::Map(_) => open.merged.push(node),
                NodeKind::List(items) => {
                    let is_map = |item: &Node| matches!(item.kind, NodeKind::Map(_));
                    let (maps, others) = items.into_iter().partition::<Vec<_>, _>(is_map);
                    open.merged.extend(maps);
                    self.errors.extend(others.iter().map(|item| not_mergeable().at(item.place)));
                }
                _ => self.errors.push(not_mergeable().at(key.place)),
            },
            (NodeKind::Map(entries), Some((key, _))) => entries.push((key, node)),
            (NodeKind::List(items), _) => items.push(node),
            _ => {}
        }
        Ok(())
    }
}

fn not_mergeable() -> SettingsError {
    SettingsError::new("`<<` takes a map or a list of maps")
}

fn outside_of_quotes(char: char) -> SettingsError {
    SettingsError::new(format!("the character U+{:04X} stands outside of quotes", u32::from(char)))
        .with_help("quote the text")
}

/// Returns the scalar type of a tag before a text.
fn scalar_form(tag: &Tag, text: &str) -> Result<ScalarForm, SettingsError> {
    match tag.core_suffix() {
        Some(name) => {
            name.parse().map(ScalarForm::Tagged).map_err(|_| misplaced_tag(name, "a scalar"))
        }
        None if is_non_specific(tag) => Ok(ScalarForm::Quoted),
        None => Err(unknown_tag(tag, text)),
    }
}

/// Returns true for the tag `!`: a list or map keeps its type, a scalar is text.
fn is_non_specific(tag: &Tag) -> bool {
    tag.handle().is_empty() && tag.suffix() == "!"
}

fn misplaced_tag(name: &str, what: &str) -> SettingsError {
    SettingsError::new(format!("the tag `!!{name}` does not fit {what}"))
}

fn unknown_tag(tag: &Tag, text: &str) -> SettingsError {
    let name = format!("{}{}", tag.original_handle(), tag.suffix());
    let help = match name.strip_prefix('!') {
        Some(word) if word.eq_ignore_ascii_case("env") => format!("write ${{env:{text}}}"),
        Some(word) if !word.starts_with('!') => {
            "put a text that begins with ! between quotes; known are tags such as !!str".to_owned()
        }
        _ => "only the tags of YAML's core schema are known, such as !!str".to_owned(),
    };
    SettingsError::new(format!("unknown tag `{name}`")).with_help(help)
}

fn count(node: &Node) -> usize {
    1 + match &node.kind {
        NodeKind::List(items) => items.iter().map(count).sum(),
        NodeKind::Map(entries) => entries.iter().map(|(_, node)| count(node)).sum(),
        _ => 0,
    }
}

fn depth(node: &Node) -> usize {
    match &node.kind {
        NodeKind::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        NodeKind::Map(entries) => 1 + entries.iter().map(|(_, n)| depth(n)).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
