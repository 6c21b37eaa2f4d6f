//! JavaScript patterns in linear time: ECMAScript syntax translated to the `regex` crate's.
//!
//! In: a pattern with its flags. Out: a finite automaton for the same question, whether it matches
//! anywhere. The pattern is parsed by ECMAScript's grammar, with the extensions of annex B, and
//! written in the `regex` crate's syntax with explicit classes. Look-around and back-references
//! have no linear-time form and are refused.
//!
//! Without the `u` flag JavaScript sees UTF-16 code units. A surrogate becomes a character of plane
//! 15 in pattern and text, so that half a character can match. [`line_ends`] handles line
//! terminators under the `m` flag.

mod class;
mod escape;
mod line_ends;
mod names;

use std::borrow::Cow;

use self::class::{Item, LINE_ENDS, Ranges, complement, meet, push, spell, stand_in, with_cases};
use self::names::CaptureGroups;
use super::limits::{DFA_BYTES_MAX, OWN_REGEX_BYTES_MAX};

/// Deepest nesting of the translated pattern; patterns of the source have 1,000 characters.
const NESTING_MAX: u32 = 4096;

/// Reasons why a pattern has no automaton.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsRegexError {
    /// JavaScript refuses it too.
    #[error("{0}")]
    Invalid(String),
    /// It has no linear-time form.
    #[error("{0} cannot be matched in linear time")]
    NotLinear(&'static str),
    /// The automaton would be too large, or a form is not supported.
    #[error("{0}")]
    Unsupported(String),
}

/// Compiled pattern.
#[derive(Debug)]
pub struct JsRegex {
    regex: regex::bytes::Regex,
    flags: Flags,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    ignore_case: bool,
    multiline: bool,
    dot_all: bool,
    pub(crate) unicode: bool,
    sticky: bool,
    pub(crate) sets: bool,
}

impl JsRegex {
    /// Translates and compiles a pattern with its flags.
    pub fn new(pattern: &str, flags: &str) -> Result<Self, JsRegexError> {
        let flags = read_flags(flags)?;
        let units: Vec<u32> = if flags.unicode {
            pattern.chars().map(u32::from).collect()
        } else {
            pattern.encode_utf16().map(u32::from).collect()
        };
        let mut writer = Writer {
            groups: CaptureGroups::of(&units),
            units: &units,
            at: 0,
            flags,
            unaligned: flags.multiline,
            out: String::with_capacity(pattern.len() * 4),
        };
        writer.alternatives()?;
        if writer.at < units.len() {
            return Err(invalid("Unmatched ')'"));
        }
        let out = match (flags.sticky, writer.unaligned) {
            (true, _) => format!("\\A(?:{})", writer.out),
            (false, false) => writer.out,
            (false, true) => {
                let any = if flags.multiline { line_ends::ANY } else { "(?s:.)" };
                format!("\\A{any}*?(?:{})", writer.out)
            }
        };
        let regex = regex::bytes::RegexBuilder::new(&out)
            .size_limit(OWN_REGEX_BYTES_MAX)
            .dfa_size_limit(DFA_BYTES_MAX)
            .nest_limit(NESTING_MAX)
            .build()
            .map_err(|error| JsRegexError::Unsupported(short(&error)))?;
        Ok(Self { regex, flags })
    }

    /// Returns the automaton, for patterns without flags and without characters beyond 16 bits.
    pub(crate) fn into_inner(self) -> regex::bytes::Regex {
        self.regex
    }

    /// Returns true if the pattern matches anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        let mut text = Cow::Borrowed(text);
        if !self.flags.unicode && text.chars().any(|c| c > '\u{ffff}') {
            text =
                Cow::Owned(text.encode_utf16().filter_map(|unit| stand_in(unit.into())).collect());
        }
        // With `i` and `u` these two are ASCII letters, also at word edges.
        if self.flags.folds() && text.contains(['\u{17f}', '\u{212a}']) {
            text = Cow::Owned(text.replace('\u{17f}', "s").replace('\u{212a}', "k"));
        }
        if self.flags.multiline {
            return self.regex.is_match(&line_ends::encoded(&text));
        }
        self.regex.is_match(text.as_bytes())
    }
}

impl Flags {
    /// Returns true if case folding is Unicode's, not that of `toUpperCase`.
    pub(crate) fn folds(self) -> bool {
        self.ignore_case && self.unicode
    }
}

fn short(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "the pattern is too large".to_owned(),
        other => other.to_string().lines().last().unwrap_or_default().to_owned(),
    }
}

pub(crate) fn invalid(message: &str) -> JsRegexError {
    JsRegexError::Invalid(message.to_owned())
}

fn read_flags(text: &str) -> Result<Flags, JsRegexError> {
    let mut flags = Flags::default();
    let wrong = || invalid(&format!("Invalid flags supplied to RegExp constructor '{text}'"));
    for (index, c) in text.char_indices() {
        if text[..index].contains(c) {
            return Err(wrong());
        }
        match c {
            'd' | 'g' => {}
            'i' => flags.ignore_case = true,
            'm' => flags.multiline = true,
            's' => flags.dot_all = true,
            'u' => flags.unicode = true,
            'v' => flags.sets = true,
            'y' => flags.sticky = true,
            _ => return Err(wrong()),
        }
    }
    if flags.unicode && flags.sets {
        return Err(wrong());
    }
    flags.unicode |= flags.sets;
    Ok(flags)
}

/// Translator: parses the pattern and writes it in the other syntax.
pub(crate) struct Writer<'a> {
    pub(crate) units: &'a [u32],
    pub(crate) at: usize,
    pub(crate) flags: Flags,
    pub(crate) groups: CaptureGroups,
    /// True if a search could start within a character, which the `regex` crate allows in bytes.
    /// The pattern is then anchored after a lazy run of whole characters.
    unaligned: bool,
    out: String,
}

impl Writer<'_> {
    pub(crate) fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    pub(crate) fn peek_at(&self, ahead: usize) -> Option<char> {
        self.units.get(self.at + ahead).map(|&unit| char::from_u32(unit).unwrap_or('\u{fffd}'))
    }

    pub(crate) fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn looking_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.peek_at(i) == Some(c))
    }

    fn alternatives(&mut self) -> Result<(), JsRegexError> {
        while let Some(c) = self.peek() {
            match c {
                ')' => return Ok(()),
                '|' => {
                    self.at += 1;
                    self.out.push('|');
                }
                _ => {
                    let start = self.out.len();
                    let repeatable = self.atom(c)?;
                    self.quantifier(start, repeatable)?;
                }
            }
        }
        Ok(())
    }

    /// Writes one atom or assertion; returns true if it may be repeated.
    fn atom(&mut self, c: char) -> Result<bool, JsRegexError> {
        match c {
            '^' | '$' => self.line_edge(c),
            '\\' if matches!(self.peek_at(1), Some('b' | 'B')) => {
                let edge = if self.peek_at(1) == Some('b') { "(?-u:\\b)" } else { "(?-u:\\B)" };
                self.unaligned |= self.peek_at(1) == Some('B');
                self.at += 2;
                self.out.push_str(edge);
                return Ok(false);
            }
            '*' | '+' | '?' => return Err(invalid("Nothing to repeat")),
            '{' if self.count().is_some() => return Err(invalid("Nothing to repeat")),
            '{' | '}' | ']' if self.flags.unicode => {
                return Err(invalid("Lone quantifier brackets"));
            }
            '(' => {
                self.group()?;
                return Ok(true);
            }
            '.' => {
                self.at += 1;
                let excluded: &[(u32, u32)] = if self.flags.dot_all { &[] } else { LINE_ENDS };
                self.write_set(excluded, true);
                return Ok(true);
            }
            '[' => {
                self.class()?;
                return Ok(true);
            }
            '\\' => {
                self.at += 1;
                let item = self.escape(false)?;
                self.write_item(item);
                return Ok(true);
            }
            _ => {
                let unit = self.units[self.at];
                self.at += 1;
                self.write_item(Item::Unit(unit));
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn line_edge(&mut self, c: char) {
        self.at += 1;
        self.out.push_str(match (c, self.flags.multiline) {
            ('^', false) => "\\A",
            ('^', true) => "(?m:^)",
            (_, false) => "\\z",
            (_, true) => "(?m:$)",
        });
    }

    fn group(&mut self) -> Result<(), JsRegexError> {
        self.at += 1;
        if self.looking_at("?=") || self.looking_at("?!") {
            return Err(JsRegexError::NotLinear("a lookahead"));
        }
        if self.looking_at("?<=") || self.looking_at("?<!") {
            return Err(JsRegexError::NotLinear("a lookbehind"));
        }
        if self.looking_at("?:") {
            self.at += 2;
        } else if self.looking_at("?<") {
            self.at += 2;
            let end = self.units[self.at..].iter().position(|&unit| unit == 0x3e);
            let end = end.ok_or_else(|| invalid("Invalid capture group name"))?;
            let name: Option<String> = self.units[self.at..self.at + end]
                .iter()
                .map(|&unit| char::from_u32(unit))
                .collect();
            let valid = name.is_some_and(|name| {
                let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
                !name.is_empty() && name.chars().all(plain) && !name.starts_with(char::is_numeric)
            });
            if !valid {
                return Err(invalid("Invalid capture group name"));
            }
            let name = &self.units[self.at..self.at + end];
            if self.groups.names.iter().filter(|known| *known == name).count() > 1 {
                return Err(invalid("Duplicate capture group name"));
            }
            self.at += end + 1;
        } else if self.looking_at("?") {
            return Err(invalid("Invalid group"));
        }
        self.out.push_str("(?:");
        self.alternatives()?;
        if !self.take(')') {
            return Err(invalid("Unterminated group"));
        }
        self.out.push(')');
        Ok(())
    }

    /// Parses `{n}`, `{n,}` or `{n,m}` without consuming it: bounds and length.
    fn count(&self) -> Option<(u64, Option<u64>, usize)> {
        let number = |mut at: usize| {
            let start = at;
            let mut value = 0u64;
            while let Some(digit) = self.peek_at(at).and_then(|c| c.to_digit(10)) {
                value = value.saturating_mul(10).saturating_add(digit.into());
                at += 1;
            }
            (at > start).then_some((value, at))
        };
        let (low, at) = number(1)?;
        match self.peek_at(at)? {
            '}' => Some((low, Some(low), at + 1)),
            ',' if self.peek_at(at + 1) == Some('}') => Some((low, None, at + 2)),
            ',' => {
                let (high, at) = number(at + 1)?;
                (self.peek_at(at) == Some('}')).then_some((low, Some(high), at + 1))
            }
            _ => None,
        }
    }

    fn quantifier(&mut self, start: usize, repeatable: bool) -> Result<(), JsRegexError> {
        let text = match self.peek() {
            Some(c @ ('*' | '+' | '?')) => {
                self.at += 1;
                c.to_string()
            }
            Some('{') => match self.count() {
                None => return Ok(()),
                Some((low, high, length)) => {
                    self.at += length;
                    match high {
                        Some(high) if high < low => {
                            return Err(invalid("numbers out of order in {} quantifier"));
                        }
                        Some(high) => format!("{{{low},{high}}}"),
                        None => format!("{{{low},}}"),
                    }
                }
            },
            _ => return Ok(()),
        };
        if !repeatable {
            return Err(invalid("Nothing to repeat"));
        }
        self.out.insert_str(start, "(?:");
        self.out.push(')');
        self.out.push_str(&text);
        if self.take('?') {
            self.out.push('?');
        }
        if matches!(self.peek(), Some('*' | '+' | '?')) || self.count_here() {
            return Err(invalid("Nothing to repeat"));
        }
        Ok(())
    }

    fn count_here(&self) -> bool {
        self.peek() == Some('{') && self.count().is_some()
    }

    fn class(&mut self) -> Result<(), JsRegexError> {
        self.at += 1;
        let negated = self.take('^');
        let mut ranges = Ranges::new();
        loop {
            let Some(c) = self.peek() else {
                return Err(invalid("Unterminated character class"));
            };
            if c == ']' {
                self.at += 1;
                break;
            }
            if self.flags.sets {
                self.check_sets(c)?;
            }
            let low = self.class_item(c)?;
            let range = self.peek() == Some('-')
                && !matches!(self.peek_at(1), None | Some(']'))
                && !(self.flags.sets && self.looking_at("--"));
            if !range {
                push(&mut ranges, low);
                continue;
            }
            self.at += 1;
            let next = self.peek().unwrap_or(']');
            match (low, self.class_item(next)?) {
                (Item::Unit(low), Item::Unit(high)) if low > high => {
                    return Err(invalid("Range out of order in character class"));
                }
                (Item::Unit(low), Item::Unit(high)) => ranges.push((low, high)),
                (_, _) if self.flags.unicode => return Err(invalid("Invalid character class")),
                (low, high) => {
                    push(&mut ranges, low);
                    push(&mut ranges, Item::Unit(0x2d));
                    push(&mut ranges, high);
                }
            }
        }
        self.write_set(&ranges, negated);
        Ok(())
    }

    /// Refuses the forms that the `v` flag forbids or adds in a class.
    fn check_sets(&self, c: char) -> Result<(), JsRegexError> {
        if c == '[' || self.looking_at("--") || self.looking_at("&&") || self.looking_at("\\q{") {
            return Err(JsRegexError::Unsupported("sets of classes are not known".to_owned()));
        }
        let double = "!#$%*+,.:;<=>?@^`~".contains(c) && self.peek_at(1) == Some(c);
        if double || "()]{}/-|".contains(c) {
            return Err(invalid("Invalid set operation in character class"));
        }
        Ok(())
    }

    fn class_item(&mut self, c: char) -> Result<Item, JsRegexError> {
        if c != '\\' {
            self.at += 1;
            return Ok(Item::Unit(self.units[self.at - 1]));
        }
        self.at += 1;
        self.escape(true)
    }

    fn write_item(&mut self, item: Item) {
        match item {
            Item::Unit(unit) => self.write_set(&[(unit, unit)], false),
            Item::Set(ranges) => self.write_set(&ranges, false),
        }
    }

    fn write_set(&mut self, ranges: &[(u32, u32)], negated: bool) {
        let fold = self.flags.ignore_case && !self.flags.unicode;
        let mut ranges = if fold { with_cases(ranges) } else { ranges.to_vec() };
        let ends = if self.flags.multiline {
            line_ends::alternatives(&ranges, negated)
        } else {
            String::new()
        };
        // With `u` and `i` the engine must fold the class before negating it.
        let late = negated && self.flags.folds() && !ranges.is_empty();
        if self.flags.multiline {
            let cut = complement(LINE_ENDS, self.top());
            if negated { ranges.extend(LINE_ENDS) } else { ranges = meet(&ranges, &cut) }
        }
        if negated && !late {
            ranges = complement(&ranges, self.top());
        }
        let body = spell(&ranges);
        let class = match (body.is_empty(), late, self.flags.folds()) {
            (true, ..) => "[a&&b]".to_owned(),
            (_, true, _) => format!("(?i:[^{body}])"),
            (_, _, true) => format!("(?i:[{body}])"),
            (..) => format!("[{body}]"),
        };
        if ends.is_empty() {
            self.out.push_str(&class);
        } else {
            self.out.push_str(&format!("(?:{class}{ends})"));
        }
    }
}

#[cfg(test)]
mod tests;
