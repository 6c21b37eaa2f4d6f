//! Python's `str`: Unicode code points, lone surrogates among them.

use std::borrow::Cow;

/// A `str` in generalized UTF-8: UTF-8, with each surrogate as three bytes.
///
/// Two are equal if their code points are; no normalization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PyStr<'a>(Cow<'a, [u8]>);

impl<'a> From<&'a str> for PyStr<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<String> for PyStr<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text.into_bytes()))
    }
}

impl<'a> From<Cow<'a, str>> for PyStr<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::from(text),
            Cow::Owned(text) => Self::from(text),
        }
    }
}

impl<'a> PyStr<'a> {
    /// Returns the encoded form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Wraps text written by [`push_code_point`].
    pub(super) fn from_encoded(bytes: Vec<u8>) -> Self {
        Self(Cow::Owned(bytes))
    }

    /// Appends another text.
    pub(super) fn append(&mut self, other: &PyStr<'_>) {
        self.0.to_mut().extend_from_slice(&other.0);
    }

    /// Returns the text, unless it holds a lone surrogate.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Returns the text with U+FFFD for each lone surrogate.
    pub fn into_text(self) -> Cow<'a, str> {
        match self.0 {
            Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => Cow::Owned(lossy(bytes)),
            },
            Cow::Owned(bytes) => {
                Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| lossy(error.as_bytes())))
            }
        }
    }

    /// Returns the code points.
    pub fn code_points(&self) -> impl Iterator<Item = u32> {
        code_points(&self.0)
    }
}

fn lossy(bytes: &[u8]) -> String {
    code_points(bytes).map(|code| char::from_u32(code).unwrap_or('\u{fffd}')).collect()
}

fn code_points(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = *bytes.get(at)?;
        let (mut code, more) = match first {
            0..0x80 => (u32::from(first), 0),
            0x80..0xe0 => (u32::from(first & 0x1f), 1),
            0xe0..0xf0 => (u32::from(first & 0x0f), 2),
            _ => (u32::from(first & 0x07), 3),
        };
        for byte in bytes.iter().skip(at + 1).take(more) {
            code = code << 6 | u32::from(byte & 0x3f);
        }
        at += 1 + more;
        Some(code)
    })
}

/// Appends one code point, including surrogates; beyond U+10FFFF it becomes U+FFFD.
pub(super) fn push_code_point(code: u32, out: &mut Vec<u8>) {
    if (0xd800..0xe000).contains(&code) {
        let tail = |shift: u32| 0x80 | (code >> shift & 0x3f) as u8;
        out.extend_from_slice(&[0xe0 | (code >> 12) as u8, tail(6), tail(0)]);
        return;
    }
    let character = char::from_u32(code).unwrap_or('\u{fffd}');
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}
