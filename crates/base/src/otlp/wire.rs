//! Protobuf field walker over borrowed bytes.
//!
//! OTLP has no groups (wire types 3 and 4); they are skipped as unknown fields. Every length is
//! checked against the unread rest, so truncated or random input ends in [`Malformed`], never in a
//! panic.

/// Deepest nesting of groups; a message with more levels is malformed.
const GROUP_DEPTH_MAX: usize = 64;

/// The bytes are not a protobuf message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed protobuf")]
pub struct Malformed;

/// Value of a field on the wire.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Field<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1, little endian.
    Fixed64(u64),
    /// Wire type 2: a string, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Wire type 5, little endian.
    Fixed32(u32),
}

/// Returns content and rest of a length-delimited field at the start of a message. A fast path for
/// the usual form; `None` only means that the message must be walked.
#[inline]
pub fn leading_bytes(message: &[u8], number: u8) -> Option<(&[u8], &[u8])> {
    let (len, rest) = match message {
        [tag, len, rest @ ..] if *tag == number << 3 | 2 && *len < 0x80 => {
            (usize::from(*len), rest)
        }
        [tag, low, high, rest @ ..] if *tag == number << 3 | 2 && *high < 0x80 => {
            (usize::from(*low & 0x7f) | usize::from(*high) << 7, rest)
        }
        [tag, low, middle, high, rest @ ..] if *tag == number << 3 | 2 && *high < 0x80 => {
            let low = usize::from(*low & 0x7f) | usize::from(*middle & 0x7f) << 7;
            (low | usize::from(*high) << 14, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}

/// Iterator over the fields of one encoded message.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Returns a walker at the first field.
    #[inline]
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Returns true at the end.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the unread rest.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of the next field, if its tag is a single byte.
    #[inline]
    pub fn number(&self) -> u8 {
        self.rest.first().map_or(0, |tag| tag >> 3)
    }

    /// Consumes the next field if it is length-delimited and has this number, and returns its
    /// content: faster than [`next`](Self::next). `None` only means that `next` must be called.
    #[inline]
    pub fn next_bytes(&mut self, number: u8) -> Option<&'a [u8]> {
        let (bytes, rest) = leading_bytes(self.rest, number)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Variant of [`next_bytes`](Self::next_bytes) for a field of eight bytes and numbers below 16.
    #[inline]
    pub fn next_fixed64(&mut self, number: u8) -> Option<u64> {
        let (tag, rest) = self.rest.split_first()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        if *tag != number << 3 | 1 {
            return None;
        }
        self.rest = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Variant of [`next_bytes`](Self::next_bytes) for a varint below 128 and numbers below 16.
    #[inline]
    pub fn next_varint(&mut self, number: u8) -> Option<u8> {
        let [tag, value, rest @ ..] = self.rest else { return None };
        if *tag != number << 3 || *value >= 0x80 {
            return None;
        }
        self.rest = rest;
        Some(*value)
    }

    /// Variant of [`next_bytes`](Self::next_bytes) for a field of four bytes and numbers from 16 to
    /// 2047.
    #[inline]
    pub fn next_fixed32(&mut self, number: u16) -> Option<u32> {
        let [first, second, rest @ ..] = self.rest else { return None };
        let (bytes, rest) = rest.split_first_chunk()?;
        if [*first, *second] != [(number << 3) as u8 | 0x85, (number >> 4) as u8] {
            return None;
        }
        self.rest = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    /// Returns the next field's number and value; `None` at the end.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "fallible, and not an Iterator on the hot path"
    )]
    pub fn next(&mut self) -> Result<Option<(u32, Field<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Malformed)?;
        if number == 0 {
            return Err(Malformed);
        }
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
                self.rest = rest;
                Field::Bytes(bytes)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
            3 => {
                self.skip_groups(number)?;
                // A field after the group.
                return self.next();
            }
            _ => return Err(Malformed),
        };
        Ok(Some((number, field)))
    }

    /// Skips a group whose start was read, its nested groups, and those directly after it.
    #[cold]
    fn skip_groups(&mut self, number: u32) -> Result<(), Malformed> {
        let mut open = [0; GROUP_DEPTH_MAX];
        open[0] = number;
        let mut depth = 1;
        loop {
            let before = *self;
            if depth == 0 && self.rest.is_empty() {
                return Ok(());
            }
            let tag = self.varint()?;
            let number = u32::try_from(tag >> 3).map_err(|_| Malformed)?;
            match tag & 7 {
                3 => {
                    *open.get_mut(depth).ok_or(Malformed)? = number;
                    depth += 1;
                }
                _ if depth == 0 => {
                    *self = before;
                    return Ok(());
                }
                4 if open[depth - 1] == number => depth -= 1,
                4 => return Err(Malformed),
                _ => {
                    // A field, not a group.
                    *self = before;
                    self.next()?;
                }
            }
        }
    }

    /// Returns number and available content of the next field if its length exceeds the rest: the
    /// place of a truncation.
    pub fn cut(mut self) -> Option<(u32, &'a [u8])> {
        let tag = self.varint().ok().filter(|tag| tag & 7 == 2)?;
        let len = self.varint().ok()?;
        let number = u32::try_from(tag >> 3).ok()?;
        (len > self.rest.len() as u64).then_some((number, self.rest))
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// Consumes a varint that stands alone, without a tag.
    ///
    /// # Errors
    /// The bytes end within it, or it has more than 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        if let [byte, rest @ ..] = self.rest
            && *byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (index, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                if index == 9 && *byte > 1 {
                    return Err(Malformed);
                }
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }
}

/// Iterates over the contents of the length-delimited fields of a number; a malformed field ends it
/// with an error.
#[inline]
pub fn contents(message: &[u8], wanted: u32) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    let mut fields = Some(Fields::new(message));
    std::iter::from_fn(move || {
        loop {
            match fields.as_mut()?.next() {
                Ok(Some((number, Field::Bytes(encoded)))) if number == wanted => {
                    return Some(Ok(encoded));
                }
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(malformed) => {
                    fields = None;
                    return Some(Err(malformed));
                }
            }
        }
    })
}

/// Writes a length-delimited field.
pub fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | 2, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes a varint.
#[inline]
pub fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field numbers of a message, or its break.
    fn numbers(message: &[u8]) -> Result<Vec<u32>, Malformed> {
        let mut fields = Fields::new(message);
        let mut numbers = Vec::new();
        while let Some((number, _)) = fields.next()? {
            numbers.push(number);
        }
        Ok(numbers)
    }

    #[test]
    fn groups_are_skipped_as_unknown_fields() {
        let nested = [vec![0x0b; GROUP_DEPTH_MAX], vec![0x0c; GROUP_DEPTH_MAX]].concat();
        let deep = [vec![0x0b; GROUP_DEPTH_MAX + 1], vec![0x0c; GROUP_DEPTH_MAX + 1]].concat();
        let many = [0x0b, 0x0c].repeat(1 << 20);
        let [two, after] = [[0x10, 7], [0x18, 1]];
        for (what, message, expected) in [
            ("alone", vec![0x0b, 0x0c], Ok(vec![])),
            ("between", [&two[..], &[0x0b, 0x0c], &after].concat(), Ok(vec![2, 3])),
            (
                "with fields",
                [&[0x0b][..], &two, &[0x12, 1, 0x0c, 0x0c], &after].concat(),
                Ok(vec![3]),
            ),
            ("nested", [&nested[..], &after].concat(), Ok(vec![3])),
            ("many", [&many[..], &after].concat(), Ok(vec![3])),
            ("too deep", deep, Err(Malformed)),
            ("without an end", vec![0x0b, 0x10, 7], Err(Malformed)),
            ("without a start", vec![0x0c], Err(Malformed)),
            ("with another end", vec![0x0b, 0x14], Err(Malformed)),
            ("of an unknown wire type", vec![0x0e], Err(Malformed)),
        ] {
            assert_eq!(numbers(&message), expected, "{what}");
        }
    }
}
