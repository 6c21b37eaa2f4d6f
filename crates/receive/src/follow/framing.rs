//! Record framing: the bounds of records in a growing file.
//!
//! ```text
//! lines     a request in JSON, then a line end
//! lengths   four bytes, the length with its highest byte first, then a request
//! ```
//!
//! The first byte distinguishes them: a length of up to 128 MiB begins with a byte of at most
//! eight, which no text does.

/// Framing of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileDivision {
    Lines,
    Lengths,
}

impl FileDivision {
    /// Returns the framing for a file's first byte.
    pub(super) fn of(first: u8) -> Self {
        if first <= 8 { Self::Lengths } else { Self::Lines }
    }
}

/// Result of parsing at the start of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextRecord {
    /// A record, with its size including the delimiter.
    Whole { start: usize, end: usize, taken: usize },
    /// Only a delimiter.
    Empty { taken: usize },
    /// An oversized record: bytes to skip, possibly more than are available.
    TooLarge { taken: u64 },
    /// An oversized line without its end.
    TooLong,
    /// An incomplete record, or nothing.
    Cut,
}

/// Finds the next record.
pub(super) fn next_record(form: FileDivision, bytes: &[u8], bytes_max: usize) -> NextRecord {
    match form {
        FileDivision::Lines => next_line(bytes, bytes_max),
        FileDivision::Lengths => next_behind_length(bytes, bytes_max),
    }
}

fn next_line(bytes: &[u8], bytes_max: usize) -> NextRecord {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return if bytes.len() > bytes_max { NextRecord::TooLong } else { NextRecord::Cut };
    };
    let taken = end + 1;
    if end > bytes_max {
        return NextRecord::TooLarge { taken: taken as u64 };
    }
    if bytes[..end].trim_ascii().is_empty() {
        return NextRecord::Empty { taken };
    }
    NextRecord::Whole { start: 0, end, taken }
}

fn next_behind_length(bytes: &[u8], bytes_max: usize) -> NextRecord {
    let Some((length, rest)) = bytes.split_first_chunk() else { return NextRecord::Cut };
    let length = u32::from_be_bytes(*length) as usize;
    match length {
        0 => NextRecord::Empty { taken: 4 },
        _ if length > bytes_max => NextRecord::TooLarge { taken: length as u64 + 4 },
        _ if rest.len() < length => NextRecord::Cut,
        _ => NextRecord::Whole { start: 4, end: 4 + length, taken: 4 + length },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_their_line_end() {
        let next = |text: &str| next_record(FileDivision::Lines, text.as_bytes(), 5);
        assert_eq!(next("{}\n{}"), NextRecord::Whole { start: 0, end: 2, taken: 3 });
        assert_eq!(next("{}"), NextRecord::Cut);
        assert_eq!(next(" \r\n"), NextRecord::Empty { taken: 3 });
        assert_eq!(next("12345\n"), NextRecord::Whole { start: 0, end: 5, taken: 6 });
        assert_eq!(next("123456\n"), NextRecord::TooLarge { taken: 7 });
        assert_eq!(next("123456"), NextRecord::TooLong);
    }

    #[test]
    fn records_stand_behind_their_length() {
        let next = |bytes: &[u8]| next_record(FileDivision::Lengths, bytes, 5);
        assert_eq!(next(b"\0\0\0\x02abX"), NextRecord::Whole { start: 4, end: 6, taken: 6 });
        for cut in [&b""[..], b"\0\0", b"\0\0\0\x02a"] {
            assert_eq!(next(cut), NextRecord::Cut);
        }
        assert_eq!(next(b"\0\0\0\0"), NextRecord::Empty { taken: 4 });
        assert_eq!(next(b"\0\0\0\x06"), NextRecord::TooLarge { taken: 10 });
    }

    #[test]
    fn the_first_byte_tells_the_form() {
        for (first, form) in [
            (b'{', FileDivision::Lines),
            (b'\t', FileDivision::Lines),
            (b'n', FileDivision::Lines),
            (0, FileDivision::Lengths),
            ((128 << 20 >> 24) as u8, FileDivision::Lengths),
        ] {
            assert_eq!(FileDivision::of(first), form);
        }
    }
}
