//! YAML text to a tree of settings with places.
//!
//! The parser's events are gathered into [`Node`]s: plain scalars typed by the core schema of YAML
//! 1.2, quoted ones text; a repeated key is an error that names both places; aliases are copies of
//! what they name; `<<` merges maps. JSON is YAML. The place of a map or list that starts below its
//! key is that of the key, since this is where a reader looks for what the map lacks.
//!
//! Limits: [`TEXT_BYTES_MAX`], [`DEPTH_MAX`], [`NODES_MAX`] (after aliases are expanded).

use hashbrown::HashMap;
use serde_saphyr::granit_parser::{
    Event, Marker, Options, Parser, ScalarStyle, StructureStyle, Tag,
};

use super::scalar;
use crate::settings::{Key, Node, NodeKind, Place, SettingsError};

/// Longest text that is read, bytes.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 20;
/// Deepest nesting.
pub(super) const DEPTH_MAX: usize = 128;
/// Most nodes, so that aliases of aliases cannot fill the memory.
pub(super) const NODES_MAX: usize = 1_000_000;

/// A scalar as the parser found it.
pub(super) struct Written<'a> {
    /// Its text, escapes resolved.
    pub(super) text: &'a str,
    /// Whether it stood without quotes.
    pub(super) plain: bool,
    /// Where it stands.
    pub(super) place: Place,
}

/// Turns a scalar into a value: the place where variables are replaced.
pub(super) type Resolve<'a> = &'a mut dyn FnMut(Written<'_>) -> Result<NodeKind, SettingsError>;

/// Reads one document. `line_offset` is added to every line. On mistakes, all that were found.
pub(super) fn parse(
    text: &str,
    line_offset: u32,
    resolve: Resolve<'_>,
) -> Result<Node, Vec<SettingsError>> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(vec![SettingsError::new(format!("larger than {TEXT_BYTES_MAX} bytes"))]);
    }
    let mut reader = Reader::new(line_offset, resolve);
    let mut options = Options::default();
    options.set_emit_comments(false);
    for event in Parser::new_from_str_with_options(text, options) {
        let taken = match event {
            Ok((event, span)) => reader.take(event, reader.place(&span.start)),
            Err(error) => {
                let place = reader.place(error.marker());
                reader.errors.push(SettingsError::new(error.kind().to_string()).at(place));
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

struct Reader<'a> {
    line_offset: u32,
    resolve: Resolve<'a>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    node_count: usize,
    document_count: usize,
    root: Node,
    errors: Vec<SettingsError>,
}

/// A collection that has not ended.
struct Open {
    node: Node,
    anchor: usize,
    /// The key whose value comes next, and whether it stood without quotes.
    key: Option<(Key, bool)>,
    /// Where each key stands.
    keys: HashMap<String, Place>,
    /// Maps named by `<<`.
    merged: Vec<Node>,
}

impl<'a> Reader<'a> {
    fn new(line_offset: u32, resolve: Resolve<'a>) -> Self {
        Self {
            line_offset,
            resolve,
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

    /// Takes one event; an error ends the reading.
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
        let plain = style == ScalarStyle::Plain;
        if self.expects_key() {
            return self.key(text.to_owned(), plain && tag.is_none(), place);
        }
        let kind = match tag {
            None => (self.resolve)(Written { text, plain, place }),
            Some(tag) => tagged(text, tag),
        };
        let kind = kind.unwrap_or_else(|error| {
            self.errors.push(error.at(place));
            NodeKind::Null
        });
        self.put(Node { kind, place }, anchor, 1)
    }

    fn start(
        &mut self,
        kind: NodeKind,
        style: StructureStyle,
        anchor: usize,
        tag: Option<&Tag>,
        place: Place,
    ) -> Result<(), SettingsError> {
        if let Some(tag) = tag.filter(|tag| !matches!(tag.core_suffix(), Some("map" | "seq"))) {
            self.errors.push(unknown_tag(tag).at(place));
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
        self.open.push(Open {
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
                NodeKind::Scalar(value) => {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    self.key(text, false, place)
                }
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
            let (line, column) = (first.line - self.line_offset, first.column);
            self.errors.push(
                SettingsError::new(format!("`{text}` is given twice"))
                    .with_help(format!("it was first given at line {line}, column {column}"))
                    .at(place),
            );
        }
        open.key = Some((Key { text, place }, plain));
        Ok(())
    }

    /// Puts a whole node where it belongs.
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
                NodeKind::List(items) => open.merged.extend(items),
                _ => self
                    .errors
                    .push(SettingsError::new("`<<` takes a map or a list of maps").at(key.place)),
            },
            (NodeKind::Map(entries), Some((key, _))) => entries.push((key, node)),
            (NodeKind::List(items), _) => items.push(node),
            _ => {}
        }
        Ok(())
    }
}

/// A scalar with a tag of the core schema.
fn tagged(text: &str, tag: &Tag) -> Result<NodeKind, SettingsError> {
    match tag.core_suffix() {
        Some("str") => Ok(scalar::text(text)),
        Some("null" | "bool" | "int" | "float") => Ok(scalar::plain(text)),
        _ if tag.handle().is_empty() && tag.suffix() == "!" => Ok(scalar::text(text)),
        _ => Err(unknown_tag(tag)),
    }
}

fn unknown_tag(tag: &Tag) -> SettingsError {
    SettingsError::new(format!("unknown tag `{}{}`", tag.original_handle(), tag.suffix()))
        .with_help("only the tags of YAML's core schema are known, such as !!str")
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
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Node, Vec<SettingsError>> {
        parse(text, 0, &mut |written| {
            Ok(if written.plain { scalar::plain(written.text) } else { scalar::text(written.text) })
        })
    }

    /// The JSON of what was read, or the first mistake with its place.
    fn check(text: &str, expected: &str) {
        let found = match read(text) {
            Ok(node) => node.to_value().to_string(),
            Err(errors) => {
                let place = errors[0].place.unwrap_or_default();
                format!("{}:{}: {}", place.line, place.column, errors[0])
            }
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn yaml_and_json_give_the_same_tree() {
        check("a: 1\nb: [x, 'y', \"1\", 1.5, null]\n", r#"{"a":1,"b":["x","y","1",1.5,null]}"#);
        check(r#"{"a": 1, "b": ["x", true, {}]}"#, r#"{"a":1,"b":["x",true,{}]}"#);
        check("a: 123456789012345678901234567890", r#"{"a":123456789012345678901234567890}"#);
        check(
            "a: |\n  two\n  lines\nb: >\n  one\n  line\n",
            r#"{"a":"two\nlines\n","b":"one line\n"}"#,
        );
        check("a: !!str 1\nb: !!int \"2\"\n", r#"{"a":"1","b":2}"#);
        check("", "null");
        check("# nothing\n---\n", "null");
    }

    #[test]
    fn aliases_and_merges_copy_what_they_name() {
        check("a: &x {k: 1}\nb: *x\n", r#"{"a":{"k":1},"b":{"k":1}}"#);
        check(
            "a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}\n",
            r#"{"a":{"k":1,"l":2},"b":{"l":3,"k":1}}"#,
        );
        check("b: {<<: [{k: 1}, {k: 2, m: 3}]}\n", r#"{"b":{"k":1,"m":3}}"#);
        check("b: {\"<<\": 1}\n", r#"{"b":{"<<":1}}"#);
    }

    #[test]
    fn what_is_not_a_config_is_an_error_with_its_place() {
        check("a: 1\na: 2\n", "2:1: `a` is given twice (it was first given at line 1, column 1)");
        check(
            "a: !secret x\n",
            "1:12: unknown tag `!secret` (only the tags of YAML's core schema \
               are known, such as !!str)",
        );
        check(
            "a: 1\n---\nb: 2\n",
            "2:1: a second document in one file (give it as a file of its own)",
        );
        check("? [a]\n: 1\n", "1:3: a key must be a word, not a list or map");
        check("a: *x\n", "1:4: while parsing node, found unknown anchor");
        check("a: [1\nb: 2\n", "2:2: illegal placement of ':' indicator");
        check("a: {b: 1\n", "1:4: unclosed bracket '{'");
        check("a: b: c\n", "1:5: mapping values are not allowed in this context");
    }

    #[test]
    fn depth_and_size_are_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(DEPTH_MAX)).is_ok());
        assert!(read(&nested(DEPTH_MAX + 1)).is_err());
        assert!(read(&nested(100_000)).is_err());
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let last = format!("*a{}, ", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", last.repeat(10)));
        }
        assert!(read(&bomb).is_err_and(|errors| errors[0].message.contains("values")));
    }

    #[test]
    fn each_value_knows_its_place() {
        let node = read("a:\n  b: [1, {c: 2}]\n").expect("YAML");
        let place = |node: &Node| (node.place.line, node.place.column);
        let a = node.get("a").expect("a");
        assert_eq!(place(a), (1, 1), "a map below its key stands at the key");
        let b = a.get("b").expect("b");
        assert_eq!(place(b), (2, 6));
        let NodeKind::List(items) = &b.kind else { panic!("a list") };
        assert_eq!(place(&items[0]), (2, 7));
        assert_eq!(items[1].entries().next().map(|(key, _)| key.place.column), Some(11));
    }
}
