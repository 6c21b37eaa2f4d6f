//! Expressions of detectors, compiled eagerly or lazily.
//!
//! Patterns are in the `regex` crate's syntax, with ASCII `\b`, `\d` and `\w`, or in ECMAScript's.
//! No pattern may match more than [`MATCH_BYTES_MAX`] bytes, unless its text is as short.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;

use super::super::limits::{DETECTOR_STEPS_PER_BYTE, MATCH_BYTES_MAX, TREE_STEPS_MIN};
use super::compile::TextForm;
use super::config::Syntax;
use super::engine::{EngineLook, RegexEngine};
use super::opening::ahead::Ahead;
use super::read::ReadText;
use crate::automata::slim;
use crate::js_regex::JsRegex;
use crate::normalise::shadow::fold_pattern;
use crate::tree::{PlacedTree, TreeMatch};
use spanscore_base::settings::SettingsError;

/// Time of compiling an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompileTime {
    /// At once: a mistake is an error.
    Now,
    /// At its first use, which takes some milliseconds.
    Needed,
}

/// Expression of a detector.
pub(crate) struct Expression {
    text: String,
    syntax: Syntax,
    case_sensitive: bool,
    /// True if it reads lower-case texts, as an expression without case distinctions does.
    in_small: bool,
    form: TextForm,
    /// First bytes of matches, except at the beginning of a text.
    begin: Ahead,
    /// Tree form, built when first needed; `None` if it needs an engine.
    tree: OnceLock<Option<PlacedTree>>,
    /// Engine for searches that exceed a tree's steps, compiled when first needed.
    compiled: OnceLock<Option<RegexEngine>>,
}

/// Searcher for successive parts of a text.
pub(super) struct ExpressionLook<'e> {
    expression: &'e Expression,
    tree: Option<&'e PlacedTree>,
    engine: Option<EngineLook<'e>>,
}

impl Expression {
    /// Creates an expression for texts of this form.
    pub(crate) fn new(
        text: String,
        syntax: Syntax,
        case_sensitive: bool,
        form: TextForm,
        when: CompileTime,
    ) -> Result<Self, SettingsError> {
        let tree = OnceLock::new();
        let compiled = OnceLock::new();
        let begin = Ahead::ANY;
        let in_small = !case_sensitive && !text.contains("(?-i");
        let new = Self { text, syntax, case_sensitive, in_small, form, begin, tree, compiled };
        if when == CompileTime::Now {
            let engine = new.compile()?;
            let _ = new.compiled.set(Some(engine));
        }
        Ok(new)
    }

    /// Sets the first bytes of its matches, except at the beginning of a text.
    pub(super) fn beginning_with(self, begin: Ahead) -> Self {
        Self { begin, ..self }
    }

    /// Starts a searcher.
    pub(super) fn look(&self) -> ExpressionLook<'_> {
        ExpressionLook { expression: self, tree: self.tree(), engine: None }
    }

    /// Returns true if it matches anywhere in a text.
    pub(super) fn is_match(&self, text: &ReadText<'_>) -> bool {
        let end = text.normal().len();
        self.look().find(text, 0..=end, end).is_some()
    }

    /// Returns its tree, if it reads the normalised text without Unicode word classes.
    pub(super) fn tree(&self) -> Option<&PlacedTree> {
        let make = || {
            if self.syntax == Syntax::Javascript || self.form != TextForm::Normalised {
                return None;
            }
            let hir = self.hir(!self.case_sensitive && !self.in_small).ok()?;
            let looks = hir.properties().look_set();
            (!looks.contains_word_unicode())
                .then(|| PlacedTree::of(&hir, self.in_small, &self.begin))
        };
        self.tree.get_or_init(make).as_ref()
    }

    /// Parses it, with case distinctions or not.
    fn hir(&self, in_any_case: bool) -> Result<Hir, SettingsError> {
        let folded = folded(&self.text, self.form);
        let mut parser = ParserBuilder::new();
        let parser = parser.utf8(false).case_insensitive(in_any_case);
        let hir = parser.build().parse(&with_ascii_classes(&folded, self.form));
        hir.map_err(|error| self.refused(&error))
    }

    /// Returns the compiled expression; `None` if it cannot be compiled, which
    /// [eager](CompileTime::Now) compilation excludes, and a test for built-in ones.
    pub(crate) fn get(&self) -> Option<&RegexEngine> {
        let compile = || {
            let compiled = self.compile();
            compiled.inspect_err(|error| tracing::error!("built-in rule pack: {error}")).ok()
        };
        self.compiled.get_or_init(compile).as_ref()
    }

    /// Returns its source text.
    #[cfg(test)]
    pub(super) fn folded(&self) -> &str {
        &self.text
    }

    fn compile(&self) -> Result<RegexEngine, SettingsError> {
        let text = &self.text;
        if self.syntax == Syntax::Javascript {
            return JsRegex::new(&self.text, if self.case_sensitive { "" } else { "i" })
                .map(|regex| RegexEngine::Javascript(regex.into_inner()))
                .map_err(|error| SettingsError::new(error.to_string()));
        }
        bounded(text, self.form)?;
        let hir = slim(&self.hir(!self.case_sensitive)?, self.form == TextForm::Normalised);
        RegexEngine::linear(&hir).map_err(|error| self.refused(&*error))
    }

    fn refused(&self, error: &dyn std::error::Error) -> SettingsError {
        refused(&self.text, error)
    }
}

impl ExpressionLook<'_> {
    /// Returns the first match that begins at one of these places and ends by `end`, with the first
    /// group that took part; the surrounding text counts for `\b` and other assertions.
    pub(super) fn find(
        &mut self,
        text: &ReadText<'_>,
        begins: RangeInclusive<usize>,
        end: usize,
    ) -> Option<TreeMatch> {
        if let Some(tree) = self.tree {
            let text = if self.expression.in_small { text.small() } else { text.normal() };
            let steps = TREE_STEPS_MIN + (end - begins.start()) * DETECTOR_STEPS_PER_BYTE;
            if let Ok(found) = tree.find(text, begins.clone(), end, steps) {
                return found;
            }
        }
        if self.engine.is_none() {
            self.engine = Some(self.expression.get()?.look());
        }
        let engine = self.engine.as_mut()?;
        let found = engine.find(text.normal(), *begins.start()..end)?;
        begins.contains(&found.whole.start).then_some(found)
    }
}

fn refused(text: &str, error: &dyn std::error::Error) -> SettingsError {
    SettingsError::new(format!("`{text}` is not an expression: {error}"))
}

fn folded(text: &str, form: TextForm) -> Cow<'_, str> {
    if form == TextForm::Normalised { fold_pattern(text).into() } else { text.into() }
}

/// Parses an expression for texts of a form, case-sensitively.
pub(crate) fn plain_of(text: &str, form: TextForm) -> Result<Hir, SettingsError> {
    parsed(&folded(text, form), form).map_err(|error| refused(text, &error))
}

/// Parses an expression with matches of at most [`MATCH_BYTES_MAX`], case-sensitively.
pub(crate) fn bounded(text: &str, form: TextForm) -> Result<Hir, SettingsError> {
    let hir = plain_of(text, form)?;
    if hir.properties().maximum_len().is_some_and(|longest| longest <= MATCH_BYTES_MAX) {
        return Ok(hir);
    }
    let message = format!("`{text}` may match more than {MATCH_BYTES_MAX} bytes");
    let help = "write `{0,40}` in place of `*` and `{1,40}` in place of `+`";
    Err(SettingsError::new(message).with_help(help))
}

/// Parses an expression to its HIR, case-sensitively.
pub(super) fn parsed(text: &str, form: TextForm) -> Result<Hir, Box<regex_syntax::Error>> {
    let mut parser = ParserBuilder::new().utf8(false).build();
    parser.parse(&with_ascii_classes(text, form)).map_err(Box::new)
}

/// Replaces `\b`, `\d` and `\w` by ASCII forms: the Unicode forms are slow, and useless on the
/// shadow. `\s` becomes ASCII if other spaces are folded.
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
