//! Token reader of a request, with errors that name the expected token.
//!
//! It adds to [`JsonLexer`]: bytes as input, white space skipped before each token, and the places
//! of errors as reported to senders. Those are before the four digits of an escape, and after a
//! whole number.

use std::borrow::Cow;

use super::OtlpJsonError;
use crate::value::json::lexer::{JsonLexError, JsonLexErrorKind, JsonLexer};

impl From<JsonLexError> for OtlpJsonError {
    fn from(error: JsonLexError) -> Self {
        let at = match error.kind {
            JsonLexErrorKind::NotHexadecimal { digits_at } => digits_at,
            _ => error.at,
        };
        Self { at, message: error.to_string() }
    }
}

/// Token reader over a request.
pub(super) struct OtlpJsonReader<'a> {
    lexer: JsonLexer<'a>,
}

impl<'a> OtlpJsonReader<'a> {
    /// Returns a reader at the beginning; a byte order mark is skipped.
    pub(super) fn new(text: &'a [u8]) -> Result<Self, OtlpJsonError> {
        let text = std::str::from_utf8(text).map_err(|error| OtlpJsonError {
            at: error.valid_up_to(),
            message: "not UTF-8".to_owned(),
        })?;
        let mut lexer = JsonLexer::new(text);
        lexer.take_text("\u{feff}");
        Ok(Self { lexer })
    }

    /// Returns an error at the current place.
    pub(super) fn error(&self, message: impl Into<String>) -> OtlpJsonError {
        OtlpJsonError { at: self.lexer.at(), message: message.into() }
    }

    /// Returns the next byte that is not white space, without consuming it; `None` at the end.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.lexer.peek_token()
    }

    /// Consumes a peeked byte.
    #[inline]
    pub(super) fn bump(&mut self) {
        self.lexer.bump();
    }

    /// Consumes `byte` or fails.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), OtlpJsonError> {
        self.lexer.white_space();
        if self.lexer.take(byte) {
            Ok(())
        } else {
            Err(self.error(format!("expected `{}`", byte as char)))
        }
    }

    /// Consumes `true`, `false` or `null`.
    pub(super) fn word(&mut self, word: &'static str) -> Result<(), OtlpJsonError> {
        Ok(self.lexer.word(word)?)
    }

    /// Consumes a string; borrowed unless it has escapes.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, OtlpJsonError> {
        self.lexer.white_space();
        Ok(self.lexer.string()?)
    }

    /// Consumes a number and returns its text.
    pub(super) fn number(&mut self) -> Result<&'a str, OtlpJsonError> {
        let number = self.lexer.number();
        let is_digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
        match number {
            Ok(number) if !is_digit(self.lexer.peek()) => Ok(number.text),
            _ => {
                // After a leading zero the lexer sees another number.
                while is_digit(self.lexer.peek()) {
                    let _ = self.lexer.number();
                }
                Err(self.error("expected a value"))
            }
        }
    }

    /// Consumes a value that is neither list nor object, and discards it.
    pub(super) fn skip_scalar(&mut self) -> Result<(), OtlpJsonError> {
        match self.peek() {
            Some(b'"') => Ok(self.lexer.skip_string()?),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.number().map(drop),
        }
    }
}
