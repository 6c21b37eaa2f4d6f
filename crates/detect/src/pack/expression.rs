//! Expressions of detectors, compiled at once or when first needed.
//!
//! Patterns are in the `regex` crate's syntax, with `\b`, `\d` and `\w` in ASCII, or in
//! ECMAScript's. No pattern may match more than [`MATCH_BYTES_MAX`] bytes, unless the text it is
//! meant for is as short.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;

use super::super::limits::MATCH_BYTES_MAX;
use super::compile::TextForm;
use super::config::Syntax;
use super::engine::RegexEngine;
use crate::automata::slim;
use crate::js_regex::JsRegex;
use crate::normalise::shadow::fold_pattern;
use spanscore_base::settings::SettingsError;

/// Time at which an expression is compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompileTime {
    /// At once: a mistake is an error.
    Now,
    /// At its first use; some milliseconds then.
    Needed,
}

/// An expression of a detector.
pub(crate) struct Expression {
    text: String,
    syntax: Syntax,
    case_sensitive: bool,
    form: TextForm,
    compiled: OnceLock<Option<RegexEngine>>,
}

impl Expression {
    /// Takes an expression for texts of that form.
    pub(crate) fn new(
        text: String,
        syntax: Syntax,
        case_sensitive: bool,
        form: TextForm,
        when: CompileTime,
    ) -> Result<Self, SettingsError> {
        let new = Self { text, syntax, case_sensitive, form, compiled: OnceLock::new() };
        if when == CompileTime::Now {
            let engine = new.compile()?;
            engine.complete().map_err(|error| new.refused(&*error))?;
            let _ = new.compiled.set(Some(engine));
        }
        Ok(new)
    }

    /// Returns the compiled expression; `None` if it cannot be compiled, which is known of no
    /// expression that was taken [now](CompileTime::Now) and tested of the built-in ones.
    pub(crate) fn get(&self) -> Option<&RegexEngine> {
        let compile = || {
            let compiled = self.compile();
            compiled.inspect_err(|error| tracing::error!("built-in rule pack: {error}")).ok()
        };
        self.compiled.get_or_init(compile).as_ref()
    }

    /// Returns the text of the expression.
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
        let folded = folded(text, self.form);
        let mut parser = ParserBuilder::new();
        let parser = parser.utf8(false).case_insensitive(!self.case_sensitive);
        let hir = parser.build().parse(&with_ascii_classes(&folded, self.form));
        let hir = hir.map_err(|error| self.refused(&error))?;
        let hir = slim(&hir, self.form == TextForm::Normalised);
        RegexEngine::linear(hir).map_err(|error| self.refused(&*error))
    }

    fn refused(&self, error: &dyn std::error::Error) -> SettingsError {
        refused(&self.text, error)
    }
}

fn refused(text: &str, error: &dyn std::error::Error) -> SettingsError {
    SettingsError::new(format!("`{text}` is not an expression: {error}"))
}

fn folded(text: &str, form: TextForm) -> Cow<'_, str> {
    if form == TextForm::Normalised { fold_pattern(text).into() } else { text.into() }
}

/// Parses an expression for texts of a form; capitals are told apart.
pub(crate) fn plain_of(text: &str, form: TextForm) -> Result<Hir, SettingsError> {
    parsed(&folded(text, form), form).map_err(|error| refused(text, &error))
}

/// Parses an expression whose matches are no longer than [`MATCH_BYTES_MAX`]; capitals are told
/// apart.
pub(crate) fn bounded(text: &str, form: TextForm) -> Result<Hir, SettingsError> {
    let hir = plain_of(text, form)?;
    if hir.properties().maximum_len().is_some_and(|longest| longest <= MATCH_BYTES_MAX) {
        return Ok(hir);
    }
    let message = format!("`{text}` may match more than {MATCH_BYTES_MAX} bytes");
    let help = "write `{0,40}` in place of `*` and `{1,40}` in place of `+`";
    Err(SettingsError::new(message).with_help(help))
}

/// Parses an expression to its HIR; capitals are told apart.
pub(super) fn parsed(text: &str, form: TextForm) -> Result<Hir, Box<regex_syntax::Error>> {
    let mut parser = ParserBuilder::new().utf8(false).build();
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
