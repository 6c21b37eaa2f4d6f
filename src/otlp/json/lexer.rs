//! Tokens of JSON (RFC 8259), strictly; it never recurses.
//!
//! Strict but for one thing: half of a surrogate pair becomes U+FFFD, since cut texts hold them
//! and one bad character should not cost a batch.

use std::borrow::Cow;

use super::OtlpJsonError;

/// Reads tokens from a text.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Starts at the beginning; a byte order mark is passed over.
    pub(super) fn new(text: &'a [u8]) -> Result<Self, OtlpJsonError> {
        let text = std::str::from_utf8(text).map_err(|error| OtlpJsonError {
            at: error.valid_up_to(),
            message: "not UTF-8".to_owned(),
        })?;
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Ok(Self { text, at })
    }

    /// An error at the current place.
    pub(super) fn error(&self, message: impl Into<String>) -> OtlpJsonError {
        OtlpJsonError { at: self.at, message: message.into() }
    }

    /// The next byte that is not white space, not consumed; `None` at the end.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Consumes a byte that has been peeked.
    #[inline]
    pub(super) fn bump(&mut self) {
        self.at += 1;
    }

    /// Consumes `byte` or fails.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), OtlpJsonError> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.error(format!("expected `{}`", byte as char)))
    }

    /// Consumes `true`, `false` or `null`.
    pub(super) fn word(&mut self, word: &str) -> Result<(), OtlpJsonError> {
        if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.error(format!("expected `{word}`")))
    }

    /// Consumes a string; borrowed unless it has escapes.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, OtlpJsonError> {
        self.expect(b'"')?;
        let start = self.at;
        match self.plain_run()? {
            b'"' => {
                let text = &self.text[start..self.at];
                self.at += 1;
                Ok(Cow::Borrowed(text))
            }
            _ => self.escaped_string(start).map(Cow::Owned),
        }
    }

    /// Moves to the next quote or backslash and returns it.
    #[inline]
    fn plain_run(&mut self) -> Result<u8, OtlpJsonError> {
        let rest = &self.text.as_bytes()[self.at..];
        let run = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
        self.at += run.unwrap_or(rest.len());
        match run.map(|run| rest[run]) {
            Some(byte @ (b'"' | b'\\')) => Ok(byte),
            Some(_) => Err(self.error("control character in a string")),
            None => Err(self.error("the text ends within a string")),
        }
    }

    fn escaped_string(&mut self, start: usize) -> Result<String, OtlpJsonError> {
        let mut out = self.text[start..self.at].to_owned();
        loop {
            // At a backslash.
            self.at += 1;
            self.escape(&mut out)?;
            let run = self.at;
            let end = self.plain_run()?;
            out.push_str(&self.text[run..self.at]);
            if end == b'"' {
                self.at += 1;
                return Ok(out);
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), OtlpJsonError> {
        let byte = self.text.as_bytes().get(self.at).copied();
        let plain = match byte {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape(out);
            }
            _ => return Err(self.error("unknown escape in a string")),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut String) -> Result<(), OtlpJsonError> {
        let first = self.hex4()?;
        let mut code = u32::from(first);
        if (0xd800..0xdc00).contains(&first) && self.text.as_bytes()[self.at..].starts_with(b"\\u")
        {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                code = 0x10000 + (u32::from(first - 0xd800) << 10) + u32::from(second - 0xdc00);
            } else {
                self.at = back;
            }
        }
        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        Ok(())
    }

    fn hex4(&mut self) -> Result<u16, OtlpJsonError> {
        let digits = self.text.as_bytes()[self.at..].first_chunk::<4>();
        let code = digits.and_then(|digits| {
            digits.iter().try_fold(0u16, |code, digit| {
                let digit = (*digit as char).to_digit(16)?;
                Some((code << 4) | u16::try_from(digit).ok()?)
            })
        });
        let code = code.ok_or_else(|| self.error("expected four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }

    /// Consumes a number and returns its text.
    pub(super) fn number(&mut self) -> Result<&'a str, OtlpJsonError> {
        let start = self.at;
        self.take_if(b"-");
        let leading_zero = self.text.as_bytes().get(self.at) == Some(&b'0');
        let integer = self.digits();
        let mut is_valid = integer > 0 && !(leading_zero && integer > 1);
        if self.take_if(b".") {
            is_valid &= self.digits() > 0;
        }
        if self.take_if(b"eE") {
            self.take_if(b"+-");
            is_valid &= self.digits() > 0;
        }
        if is_valid { Ok(&self.text[start..self.at]) } else { Err(self.error("expected a value")) }
    }

    fn take_if(&mut self, any_of: &[u8]) -> bool {
        let found = self.text.as_bytes().get(self.at).is_some_and(|byte| any_of.contains(byte));
        self.at += usize::from(found);
        found
    }

    fn digits(&mut self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += len;
        len
    }

    /// Consumes a value that is neither list nor object, and forgets it.
    pub(super) fn skip_scalar(&mut self) -> Result<(), OtlpJsonError> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.number().map(drop),
        }
    }
}
