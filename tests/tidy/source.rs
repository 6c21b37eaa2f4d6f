//! Source files as the rules see them: what is compiled, apart from comments, texts and tests.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A source file.
pub(crate) struct Source {
    /// From the root of the project, such as `src/emit/mod.rs`.
    pub(crate) path: String,
    /// As it is written.
    pub(crate) text: String,
    /// The text with blanks for comments and for what texts and characters hold: as long as the
    /// text, with the same lines.
    pub(crate) bare: String,
    /// The items that are only built for tests.
    tests: Vec<Range<usize>>,
    /// Beginning of each line.
    line_starts: Vec<usize>,
}

impl Source {
    /// Reads a text as the file of that path.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let bare = without_comments_and_texts(text);
        let is_test = ["/tests.rs", "/tests/", "/benches/"].iter().any(|it| path.contains(it));
        let tests = match is_test || bare.contains("#![cfg(test)]") {
            true => std::iter::once(0..text.len()).collect(),
            false => test_items(&bare),
        };
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(breaks).collect();
        Self { path: path.to_owned(), text: text.to_owned(), bare, tests, line_starts }
    }

    /// All files below these folders of the project.
    pub(crate) fn all(folders: &[&str]) -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut paths = Vec::new();
        folders.iter().for_each(|folder| gather(&root.join(folder), &mut paths));
        paths.sort();
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            Self::new(&path, &text)
        };
        paths.into_iter().map(read).collect()
    }

    /// Returns true if the code at this byte is only built for tests.
    pub(crate) fn is_test(&self, at: usize) -> bool {
        self.tests.iter().any(|item| item.contains(&at))
    }

    /// Returns true if all of the file is only built for tests.
    pub(crate) fn is_test_file(&self) -> bool {
        self.tests.first().is_some_and(|item| *item == (0..self.text.len()))
    }

    /// The number of the line in which this byte stands.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// The lines with their numbers, as written.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The lines that are not only for tests, as written: comments and texts too.
    pub(crate) fn shipped(&self) -> impl Iterator<Item = (usize, &str)> {
        self.places(&self.text)
    }

    /// The same without comments and without what texts hold.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.places(&self.bare)
    }

    fn places<'s>(&'s self, text: &'s str) -> impl Iterator<Item = (usize, &'s str)> {
        let mut start = 0;
        let lines = text.split_inclusive('\n').enumerate().map(move |(index, line)| {
            start += line.len();
            (start - line.len(), index + 1, line.trim_end_matches('\n'))
        });
        lines.filter(|(at, ..)| !self.is_test(*at)).map(|(_, number, line)| (number, line))
    }
}

/// The messages of the protocol of external evaluators: a generator wrote them, and a test of its
/// own holds them.
const GENERATED: &str = "crates/evaluate/src/external/v1.rs";

fn gather(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            gather(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with(GENERATED)
        {
            out.push(path);
        }
    }
}

/// Returns true if a word of code may hold this byte.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Blanks for comments, and for what stands between the quotes of texts and characters.
fn without_comments_and_texts(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    let mut at = 0;
    while at < text.len() {
        let (hidden, end) = token(text, at);
        for byte in &mut out[hidden] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the part of the token at `at` that is hidden, and its end.
fn token(text: &str, at: usize) -> (Range<usize>, usize) {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    let within = |open: usize, held: usize, close: usize| {
        let start = at + open;
        let end = (start + held).min(bytes.len());
        (start..end, (end + close).min(bytes.len()))
    };
    let raw = |prefix: usize| {
        let (hashes, held) = raw_text(&rest[prefix..])?;
        starts_word(bytes, at).then(|| within(prefix + hashes + 1, held, hashes + 1))
    };
    let found = match rest {
        [b'/', b'/', ..] => {
            let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            Some(within(0, len, 0))
        }
        [b'/', b'*', ..] => Some(within(0, block_comment(rest), 0)),
        [b'r', ..] => raw(1),
        [b'b' | b'c', b'r', ..] => raw(2),
        [b'"', ..] => Some(within(1, quoted(&rest[1..], b'"'), 1)),
        [b'\'', ..] if is_character(&text[at..]) => Some(within(1, quoted(&rest[1..], b'\''), 1)),
        _ => None,
    };
    found.unwrap_or((at..at, at + 1))
}

fn starts_word(bytes: &[u8], at: usize) -> bool {
    at == 0 || !is_word(bytes[at - 1])
}

/// The length of a block comment; such comments nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Behind the `r` of a raw text: how many `#` it has, and the length of what it holds.
fn raw_text(rest: &[u8]) -> Option<(usize, usize)> {
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    if rest.get(hashes) != Some(&b'"') {
        return None;
    }
    let close = [b"\"", "#".repeat(hashes).as_bytes()].concat();
    let inner = &rest[hashes + 1..];
    let len = inner.windows(close.len()).position(|window| *window == close);
    Some((hashes, len.unwrap_or(inner.len())))
}

/// The length of what stands before the closing quote.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at.min(rest.len())
}

/// Returns true if a quote begins a character, and not a lifetime.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

/// Returns the items behind `#[cfg(test)]` and `#[cfg(all(test, ...))]`: one each.
fn test_items(bare: &str) -> Vec<Range<usize>> {
    let marks = bare.match_indices("#[cfg(").filter(|(at, _)| {
        let condition = &bare[at + 6..];
        let condition = condition.strip_prefix("all(").unwrap_or(condition);
        condition.starts_with("test)") || condition.starts_with("test,")
    });
    marks.map(|(at, _)| at..item_end(bare, at)).collect()
}

/// Returns the end of the item whose first attribute stands at `at`.
fn item_end(bare: &str, mut at: usize) -> usize {
    let bytes = bare.as_bytes();
    loop {
        at += bare[at..].len() - bare[at..].trim_start().len();
        if !bare[at..].starts_with('#') {
            break;
        }
        at = closing(bytes, at + 1).map_or(bytes.len(), |end| end + 1);
    }
    let end = Ending::of(&bare[at..]);
    while at < bytes.len() {
        match (bytes[at], end) {
            (b';', _) | (b',', Ending::Comma) => return at + 1,
            (b')' | b']' | b'}', _) => return at,
            (b'(' | b'[' | b'{', _) => {
                let is_macro = bare[..at].trim_end().ends_with('!');
                let is_last = bytes[at] == b'{' && (end == Ending::Body || is_macro);
                at = closing(bytes, at).map_or(bytes.len(), |close| close + 1);
                if is_last {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// End of an item, beside a semicolon.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Ending {
    /// The end of its body: a function, a type, a module.
    Body,
    /// Nothing else: a `use`, a constant, a statement.
    Semicolon,
    /// A comma: a field, a variant, an arm.
    Comma,
}

impl Ending {
    fn of(item: &str) -> Self {
        let before = ["pub", "crate", "super", "self", "in", "unsafe", "async", "extern", ""];
        let mut words = item.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let mut next = || words.find(|word| !before.contains(word)).unwrap_or_default();
        match next() {
            "mod" | "fn" | "struct" | "enum" | "union" | "trait" | "impl" | "macro_rules" => {
                Self::Body
            }
            "const" if next() == "fn" => Self::Body,
            "const" | "use" | "static" | "type" | "let" => Self::Semicolon,
            _ => Self::Comma,
        }
    }
}

/// Returns the place where the bracket that opens at `at` closes.
pub(crate) fn closing(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (index, byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the code of a text that is not only for tests, its white space taken together.
    fn check(text: &str, code: &str) {
        let source = Source::new("src/x.rs", text);
        let lines: Vec<_> = source.code().map(|(_, line)| line).collect();
        let words: Vec<_> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
        assert_eq!(words.join(" "), code, "{text}");
    }

    #[test]
    fn comments_and_texts_are_no_code() {
        check("a(); // crate::b\n/* c /* d */ e */ f();", "a(); f();");
        check(
            "a(\"crate::b \\\" c\", \"\"); b('\"', '\\'', x);",
            "a(\" \", \"\"); b(' ', ' ', x);",
        );
        check("a(r#\"b \" c\"#, br\"d\\\", r#type);", "a(r#\" \"#, br\" \", r#type);");
        check(
            "fn a<'a>(b: &'a str, c: char) -> &'a str { 'l: loop {} }",
            "fn a<'a>(b: &'a str, c: char) -> &'a str { 'l: loop {} }",
        );
        check("a('ä', \"ö\"); /* ü", "a(' ', \" \");");
    }

    #[test]
    fn only_the_item_that_is_for_tests_is_left_out() {
        check("#[cfg(test)]\nmod sample;\nmod b;", "mod b;");
        check("#[cfg(test)]\nmod tests {\n fn a() {}\n}\nfn b() {}", "fn b() {}");
        check("#[cfg(test)]\n#[expect(x)]\npub(crate) const fn a() {\n}\nfn b() {}", "fn b() {}");
        check("#[cfg(test)]\nuse a::{b, c};\nuse d;", "use d;");
        check("#[cfg(test)]\nconst A: [u8; 2] = [1, 2];\nfn b() {}", "fn b() {}");
        check("#[cfg(all(test, unix))]\nfn a() {}\nfn b() {}", "fn b() {}");
        check("struct A {\n#[cfg(test)]\nb: u8,\nc: u8,\n}", "struct A { c: u8, }");
        check("struct A {\nc: u8,\n#[cfg(test)]\nb: u8\n}", "struct A { c: u8, }");
        check("#[cfg(test)]\nproptest! {\n a }\nfn b() {}", "fn b() {}");
        check("#[cfg(not(test))]\nfn a() {}", "#[cfg(not(test))] fn a() {}");
        check("// #[cfg(test)]\nfn a() {}", "fn a() {}");
    }

    #[test]
    fn files_of_tests_hold_no_code() {
        for path in ["src/x/tests.rs", "src/x/tests/y.rs", "crates/x/benches/y.rs"] {
            assert!(Source::new(path, "fn a() {}").code().next().is_none(), "{path}");
        }
        assert!(Source::new("src/x.rs", "#![cfg(test)]\nfn a() {}").is_test_file());
    }
}
