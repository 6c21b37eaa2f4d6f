//! Expressions of detectors, compiled at once or when first needed.
//!
//! Patterns are in the `regex` crate's syntax, with `\b`, `\d` and `\w` in ASCII, or in
//! ECMAScript's. No pattern may match more than [`MATCH_BYTES_MAX`] bytes, unless the text it is
//! meant for is as short.

use std::ops::Range;
use std::sync::OnceLock;

use regex_automata::meta::{self, Regex};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, Span};
use regex_syntax::hir::Hir;

use super::super::limits::{DFA_BYTES_MAX, MATCH_BYTES_MAX, REGEX_BYTES_MAX};
use super::compile::TextForm;
use super::config::Syntax;
use crate::detect::caches::{self, AutomatonNotes};
use crate::detect::js_regex::JsRegex;
use crate::detect::normalise::shadow::fold_pattern;
use crate::settings::SettingsError;

/// When an expression is compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::detect) enum CompileTime {
    /// At once: a mistake is an error.
    Now,
    /// When it is first asked for; some milliseconds then.
    Needed,
}

/// How long a match may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::detect) enum MatchLength {
    /// At most [`MATCH_BYTES_MAX`].
    Bounded,
    /// As long as the text, which is no longer than that and ends every match. A repetition without
    /// a bound needs no state for each of its numbers; with one behind another, an automaton has
    /// new states for nearly every text.
    OfText,
}

/// An expression of a detector.
pub(in crate::detect) struct Expression {
    text: String,
    syntax: Syntax,
    case_sensitive: bool,
    form: TextForm,
    length: MatchLength,
    compiled: OnceLock<Option<Engine>>,
}

impl Expression {
    /// Takes an expression for texts of that form.
    pub(in crate::detect) fn new(
        text: String,
        syntax: Syntax,
        case_sensitive: bool,
        form: TextForm,
        length: MatchLength,
        when: CompileTime,
    ) -> Result<Self, SettingsError> {
        let new = Self { text, syntax, case_sensitive, form, length, compiled: OnceLock::new() };
        if when == CompileTime::Now {
            let _ = new.compiled.set(Some(new.compile()?));
        }
        Ok(new)
    }

    /// The compiled expression; `None` if it cannot be compiled, which is known of no expression
    /// that was taken [now](CompileTime::Now) and tested of the built-in ones.
    pub(in crate::detect) fn get(&self) -> Option<&Engine> {
        let compile = || {
            let compiled = self.compile();
            compiled.inspect_err(|error| tracing::error!("built-in rule pack: {error}")).ok()
        };
        self.compiled.get_or_init(compile).as_ref()
    }

    /// The expression as it is matched, written out.
    #[cfg(test)]
    pub(super) fn folded(&self) -> &str {
        &self.text
    }

    fn compile(&self) -> Result<Engine, SettingsError> {
        let text = &self.text;
        if self.syntax == Syntax::Javascript {
            return JsRegex::new(&self.text, if self.case_sensitive { "" } else { "i" })
                .map(|regex| Engine::Javascript(regex.into_inner()))
                .map_err(|error| SettingsError::new(error.to_string()));
        }
        let folded =
            if self.form == TextForm::Normalised { fold_pattern(text) } else { text.clone() };
        let longest = parsed(&folded, self.form)
            .map_err(|error| SettingsError::new(format!("`{text}` is not an expression: {error}")))?
            .properties()
            .maximum_len();
        let folded = with_ascii_classes(&folded, self.form);
        let is_bounded = longest.is_some_and(|longest| longest <= MATCH_BYTES_MAX);
        if self.length == MatchLength::Bounded && !is_bounded {
            return Err(SettingsError::new(format!(
                "`{text}` may match more than {MATCH_BYTES_MAX} bytes"
            ))
            .with_help("write `{0,40}` in place of `*` and `{1,40}` in place of `+`"));
        }
        let config = meta::Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .hybrid_cache_capacity(DFA_BYTES_MAX);
        let syntax = syntax::Config::new().case_insensitive(!self.case_sensitive).utf8(false);
        Regex::builder()
            .configure(config)
            .syntax(syntax)
            .build(&folded)
            .map(|regex| Engine::Linear(Linear { regex: Box::new(regex), owner: caches::owner() }))
            .map_err(|error| SettingsError::new(format!("`{text}` is not an expression: {error}")))
    }
}

/// A compiled expression.
pub(in crate::detect) enum Engine {
    /// Of the `regex` crate's syntax; can be held to a part of a text.
    Linear(Linear),
    /// Of ECMAScript's.
    Javascript(regex::bytes::Regex),
}

/// An expression that searches in linear time.
pub(in crate::detect) struct Linear {
    regex: Box<Regex>,
    /// What its notes are kept under.
    owner: u32,
}

impl Linear {
    fn look(&self) -> LinearLook<'_> {
        let cache = match caches::take(self.owner) {
            Some(AutomatonNotes::Expression(cache)) => cache,
            _ => Box::new(self.regex.create_cache()),
        };
        LinearLook { linear: self, cache: Some(cache) }
    }
}

impl Engine {
    /// Begins to search.
    pub(in crate::detect) fn look(&self) -> EngineLook<'_> {
        match self {
            Self::Linear(linear) => EngineLook::Linear(linear.look()),
            Self::Javascript(regex) => EngineLook::Javascript(regex),
        }
    }

    /// Whether it matches anywhere.
    pub(in crate::detect) fn is_match(&self, text: &[u8]) -> bool {
        match self {
            Self::Linear(linear) => linear.look().is_match(text),
            Self::Javascript(regex) => regex.is_match(text),
        }
    }
}

/// An expression that searches one part after the other.
pub(in crate::detect) enum EngineLook<'e> {
    Linear(LinearLook<'e>),
    Javascript(&'e regex::bytes::Regex),
}

/// The same with what it has noted.
pub(in crate::detect) struct LinearLook<'e> {
    linear: &'e Linear,
    /// `None` only while it ends.
    cache: Option<Box<meta::Cache>>,
}

impl Drop for LinearLook<'_> {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.take() {
            caches::keep(self.linear.owner, AutomatonNotes::Expression(cache));
        }
    }
}

impl LinearLook<'_> {
    fn find(&mut self, input: &Input<'_>) -> Option<Range<usize>> {
        let found = self.linear.regex.search_with(self.cache.as_deref_mut()?, input)?;
        Some(found.range())
    }

    fn is_match(&mut self, text: &[u8]) -> bool {
        let input = Input::new(text).earliest(true);
        let found = |cache| self.linear.regex.search_half_with(cache, &input);
        self.cache.as_deref_mut().and_then(found).is_some()
    }

    fn group(&mut self, text: &[u8], found: Range<usize>) -> Option<Range<usize>> {
        let regex = &self.linear.regex;
        if regex.captures_len() < 2 {
            return None;
        }
        let mut groups = regex.create_captures();
        let input = Input::new(text).span(Span::from(found));
        regex.search_captures_with(self.cache.as_deref_mut()?, &input, &mut groups);
        groups.get_group(1).map(|group| group.range())
    }
}

impl EngineLook<'_> {
    /// The first match within a part of a text; what stands around the part counts for `\b` and the
    /// like.
    pub(super) fn find(&mut self, text: &[u8], part: Range<usize>) -> Option<Range<usize>> {
        match self {
            Self::Linear(linear) => linear.find(&Input::new(text).span(Span::from(part))),
            Self::Javascript(regex) => {
                regex.find_at(&text[..part.end], part.start).map(|found| found.range())
            }
        }
    }

    /// The match that begins where a part of a text does.
    pub(super) fn find_at(&mut self, text: &[u8], part: Range<usize>) -> Option<Range<usize>> {
        match self {
            Self::Linear(linear) => {
                let input = Input::new(text).span(Span::from(part));
                linear.find(&input.anchored(Anchored::Yes))
            }
            Self::Javascript(_) => {
                let begin = part.start;
                self.find(text, part).filter(|found| found.start == begin)
            }
        }
    }

    /// The first group of a match, where the expression has one and it took part.
    pub(super) fn group(&mut self, text: &[u8], found: Range<usize>) -> Option<Range<usize>> {
        match self {
            Self::Linear(linear) => linear.group(text, found),
            Self::Javascript(regex) if regex.captures_len() > 1 => {
                regex.captures_at(text, found.start)?.get(1).map(|group| group.range())
            }
            Self::Javascript(_) => None,
        }
    }
}

/// What an expression is made of; capitals are told apart.
pub(super) fn parsed(text: &str, form: TextForm) -> Result<Hir, Box<regex_syntax::Error>> {
    let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
    parser.parse(&with_ascii_classes(text, form)).map_err(Box::new)
}

/// Spells `\b`, `\d` and `\w` out in ASCII: the Unicode forms are slow, and the shadow has no use
/// for them. `\s` is spelled out where other spaces are folded.
fn with_ascii_classes(pattern: &str, form: TextForm) -> String {
    let spaces = form == TextForm::Normalised;
    let mut out = String::with_capacity(pattern.len() * 2);
    let mut chars = pattern.chars();
    let mut class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match (chars.next(), class) {
                (Some('b'), _) => out.push_str("(?-u:\\b)"),
                (Some('d'), false) => out.push_str("[0-9]"),
                (Some('d'), true) => out.push_str("0-9"),
                (Some('w'), false) => out.push_str("[0-9A-Za-z_]"),
                (Some('w'), true) => out.push_str("0-9A-Za-z_"),
                (Some('s'), false) if spaces => out.push_str(r"[\t-\r ]"),
                (Some('s'), true) if spaces => out.push_str(r"\t-\r "),
                (Some(other), _) => out.extend(['\\', other]),
                (None, _) => out.push('\\'),
            },
            _ => {
                class = (class && c != ']') || (!class && c == '[');
                out.push(c);
            }
        }
    }
    out
}
