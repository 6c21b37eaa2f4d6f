//! JSON lexer (RFC 8259), shared by all readers.
//!
//! A [`JsonLexer`] passes over a text once and yields white space, strings, numbers and words. The
//! calling reader handles lists, objects, depth and extensions of the grammar. Strict, in constant
//! stack, and linear in the text. A string without escapes is borrowed. A `\u` escape may be half
//! of a surrogate pair, which no `str` can hold; each reader chooses the replacement
//! ([`Unescape`]). Errors name the byte.

use std::borrow::Cow;

/// Error of a token, with its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind}")]
pub struct JsonLexError {
    /// Place, in bytes from the start.
    pub at: usize,
    /// Kind of the error.
    pub kind: JsonLexErrorKind,
}

/// Kind of an error in a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JsonLexErrorKind {
    /// No string begins here.
    #[error("expected `\"`")]
    NoString,
    /// A character below U+0020 stands in a string.
    #[error("control character in a string")]
    ControlCharacter,
    /// A string has no end.
    #[error("the text ends within a string")]
    OpenString,
    /// A backslash before a character that forms no escape.
    #[error("unknown escape in a string")]
    UnknownEscape,
    /// One of the four digits of a `\u` escape is not a hexadecimal digit.
    #[error("expected four hexadecimal digits")]
    NotHexadecimal {
        /// Place of the first of the four.
        digits_at: usize,
    },
    /// No number, or digits are missing here.
    #[error("expected a value")]
    NoNumber,
    /// This word was expected here.
    #[error("expected `{0}`")]
    NoWord(&'static str),
}

/// Output for the content of a string that has escapes.
pub trait Unescape {
    /// Appends text without escapes.
    fn push_plain(&mut self, text: &str);

    /// Appends the code point of an escape: never above U+10FFFF, and a surrogate only if its other
    /// half is missing.
    fn push_code_point(&mut self, code: u32);
}

/// Replaces a lone surrogate by U+FFFD: truncated texts contain them, and one bad character should
/// not lose the rest.
impl Unescape for String {
    fn push_plain(&mut self, text: &str) {
        self.push_str(text);
    }

    fn push_code_point(&mut self, code: u32) {
        self.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
}

/// Output that discards the content, for checking only.
struct Unkept;

impl Unescape for Unkept {
    fn push_plain(&mut self, _: &str) {}

    fn push_code_point(&mut self, _: u32) {}
}

/// Number as written.
#[derive(Clone, Copy, Debug)]
pub struct JsonNumber<'a> {
    /// Its whole text.
    pub text: &'a str,
    /// True if it has neither fraction nor exponent.
    pub is_integer: bool,
}

/// Bytes reserved after the first plain part of a string with escapes: most such strings are JSON
/// in JSON.
const ESCAPED_GUESS: usize = 128;

/// Lexer over a text.
pub struct JsonLexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonLexer<'a> {
    /// Returns a lexer at the beginning of a text.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the place of the next token, in bytes from the start.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the text from a place returned by [`at`](Self::at) to here.
    pub fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// Returns the next byte without consuming it; `None` at the end.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space, and peeks.
    #[inline]
    pub fn peek_token(&mut self) -> Option<u8> {
        self.white_space();
        self.peek()
    }

    /// Skips white space: the four characters of the grammar.
    #[inline]
    pub fn white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Consumes this ASCII byte if it is next; returns true if it was.
    #[inline]
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Consumes a peeked ASCII byte.
    #[inline]
    pub fn bump(&mut self) {
        self.at += 1;
    }

    /// Consumes this text if it is next; returns true if it was.
    pub fn take_text(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text.as_bytes());
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// Consumes a word such as `true`.
    #[inline]
    pub fn word(&mut self, word: &'static str) -> Result<(), JsonLexError> {
        if self.take_text(word) { Ok(()) } else { Err(self.error(JsonLexErrorKind::NoWord(word))) }
    }

    /// Consumes a number; after an error, everything that resembles one.
    #[inline]
    pub fn number(&mut self) -> Result<JsonNumber<'a>, JsonLexError> {
        // After an error the rest of the number is consumed, too: lenient readers continue after
        // it, and strict ones report the missing digit's place.
        let start = self.at;
        let mut lacks = None;
        self.take(b'-');
        // A leading zero stands alone; digits after it are not part of the number.
        if !self.take(b'0') && self.digits() == 0 {
            lacks = Some(self.at);
        }
        let whole = self.at;
        if self.take(b'.') && self.digits() == 0 {
            lacks = lacks.or(Some(self.at));
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            if self.digits() == 0 {
                lacks = lacks.or(Some(self.at));
            }
        }
        match lacks {
            None => Ok(JsonNumber { text: self.since(start), is_integer: self.at == whole }),
            Some(at) => Err(JsonLexError { at, kind: JsonLexErrorKind::NoNumber }),
        }
    }

    /// Consumes a string, borrowed unless it has escapes; lone surrogates become U+FFFD.
    #[inline]
    pub fn string(&mut self) -> Result<Cow<'a, str>, JsonLexError> {
        let (plain, is_all) = self.begin_string()?;
        if is_all {
            return Ok(Cow::Borrowed(plain));
        }
        let mut out = String::with_capacity(plain.len() + ESCAPED_GUESS);
        self.escaped_string(plain, &mut out)?;
        Ok(Cow::Owned(out))
    }

    /// Consumes a string and discards it.
    #[inline]
    pub fn skip_string(&mut self) -> Result<(), JsonLexError> {
        self.string_into(&mut Unkept).map(drop)
    }

    /// Consumes a string. One without escapes is returned; otherwise the content goes to `out`.
    #[inline]
    pub fn string_into(
        &mut self,
        out: &mut impl Unescape,
    ) -> Result<Option<&'a str>, JsonLexError> {
        let (plain, is_all) = self.begin_string()?;
        if is_all {
            return Ok(Some(plain));
        }
        self.escaped_string(plain, out).map(|()| None)
    }

    /// Consumes the first plain part of a string, and the end if no escape follows.
    #[inline]
    fn begin_string(&mut self) -> Result<(&'a str, bool), JsonLexError> {
        if !self.take(b'"') {
            return Err(self.error(JsonLexErrorKind::NoString));
        }
        let plain = self.plain_text();
        Ok((plain, self.take(b'"')))
    }

    /// Consumes the rest of a string, from the end of its first plain part.
    fn escaped_string(&mut self, plain: &str, out: &mut impl Unescape) -> Result<(), JsonLexError> {
        out.push_plain(plain);
        loop {
            match self.peek() {
                Some(b'\\') => self.escape(out)?,
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(0..0x20) => return Err(self.error(JsonLexErrorKind::ControlCharacter)),
                Some(_) => out.push_plain(self.plain_text()),
                None => return Err(self.error(JsonLexErrorKind::OpenString)),
            }
        }
    }

    /// Consumes text without escapes in a string.
    #[inline]
    fn plain_text(&mut self) -> &'a str {
        let start = self.at;
        self.at += plain_length(self.rest());
        self.since(start)
    }

    #[inline]
    fn escape(&mut self, out: &mut impl Unescape) -> Result<(), JsonLexError> {
        self.at += 1;
        let code = match self.peek() {
            Some(kind @ (b'"' | b'\\' | b'/')) => kind,
            Some(b'b') => 0x8,
            Some(b'f') => 0xc,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let code = self.unicode_escape()?;
                out.push_code_point(code);
                return Ok(());
            }
            _ => return Err(self.error(JsonLexErrorKind::UnknownEscape)),
        };
        self.at += 1;
        out.push_code_point(code.into());
        Ok(())
    }

    /// Consumes one code point after `\u`, from one escape or a surrogate pair.
    fn unicode_escape(&mut self) -> Result<u32, JsonLexError> {
        let first = self.hexadecimal()?;
        let back = self.at;
        if (0xd800..0xdc00).contains(&first) && self.take_text("\\u") {
            let second = self.hexadecimal()?;
            if (0xdc00..0xe000).contains(&second) {
                return Ok(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            }
            self.at = back;
        }
        Ok(first)
    }

    fn hexadecimal(&mut self) -> Result<u32, JsonLexError> {
        let digit = |byte: &u8| (*byte as char).to_digit(16);
        let four = self.rest().first_chunk::<4>().map(|four| four.each_ref().map(digit));
        if let Some([Some(a), Some(b), Some(c), Some(d)]) = four {
            self.at += 4;
            return Ok(a << 12 | b << 8 | c << 4 | d);
        }
        let digits_at = self.at;
        self.at += self.rest().iter().take_while(|byte| digit(byte).is_some()).count();
        Err(self.error(JsonLexErrorKind::NotHexadecimal { digits_at }))
    }

    fn digits(&mut self) -> usize {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    #[cold]
    fn error(&self, kind: JsonLexErrorKind) -> JsonLexError {
        JsonLexError { at: self.at, kind }
    }
}

/// Bytes of a string scanned eight at a time before wider steps pay.
const SHORT: usize = 64;

/// Returns the number of bytes before the next quote, backslash or control character.
///
/// Keys and words are short and cost less than the setup of a search. A model's answer is long, and
/// wide steps are several times as fast there.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < SHORT {
        let Some(word) = bytes[at..].first_chunk::<8>() else {
            return at + bytes[at..].iter().take_while(|byte| !is_stop(**byte)).count();
        };
        let stops = stops(u64::from_le_bytes(*word));
        if stops != 0 {
            return at + (stops.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + long_plain_length(&bytes[at..])
}

fn is_stop(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// Returns the highest bit of each byte that ends plain text, comparing eight bytes in one word.
/// Only the lowest such bit is certain, since a subtraction borrows from the bytes above.
#[inline]
fn stops(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | is(b'"') | is(b'\\')) & HIGHS
}

#[inline(never)]
fn long_plain_length(bytes: &[u8]) -> usize {
    let plain = memchr::memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
    // The minimum is computed on many bytes at once; most texts hold no control character.
    let lowest = bytes[..plain].iter().fold(u8::MAX, |lowest, byte| lowest.min(*byte));
    let is_control = |byte: &u8| *byte < 0x20;
    if is_control(&lowest) { bytes.iter().position(is_control).unwrap_or(plain) } else { plain }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn steps_of_any_width_end_at_the_same_byte(
            bytes in prop::collection::vec(prop_oneof![50 => 0x20u8.., 1 => 0u8..], 0..200),
        ) {
            let one_by_one = bytes.iter().take_while(|byte| !is_stop(**byte)).count();
            prop_assert_eq!(plain_length(&bytes), one_by_one);
        }

        #[test]
        fn what_is_skipped_is_what_is_read(text in r#""[a\\"u0d8e\n]{0,12}""#) {
            let mut read = JsonLexer::new(&text);
            let mut skip = JsonLexer::new(&text);
            prop_assert_eq!(read.string().map(drop), skip.skip_string());
            prop_assert_eq!(read.at(), skip.at());
        }
    }

    #[test]
    fn behind_a_number_that_lacks_digits_all_that_looks_like_it_is_passed() {
        let check = |text: &str, at: usize, end: usize| {
            let mut lexer = JsonLexer::new(text);
            let error = JsonLexError { at, kind: JsonLexErrorKind::NoNumber };
            assert_eq!(lexer.number().map(|number| number.text), Err(error), "{text}");
            assert_eq!(lexer.at(), end, "{text}");
        };
        check("1.e5,", 2, 4);
        check("-.5,", 1, 3);
        check("1.5e+,", 5, 5);
        check("x", 0, 0);
    }
}
