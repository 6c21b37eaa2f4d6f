//! Ids of traces, spans and evaluations.

use std::fmt;

/// A W3C trace id: 16 bytes, never all zero in valid data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TraceId(pub [u8; 16]);

/// A W3C span id: 8 bytes; all zero stands for "none".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SpanId(pub [u8; 8]);

/// Identity of one evaluation: the same evidence judged by the same evaluator has the same id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EvaluationId(pub [u8; 16]);

impl TraceId {
    /// Reads an id in its wire form; `None` unless it has 16 bytes that are not all zero.
    pub fn from_wire(bytes: &[u8]) -> Option<Self> {
        let id: [u8; 16] = bytes.try_into().ok()?;
        (id != [0; 16]).then_some(Self(id))
    }

    /// Returns it with another first half.
    pub fn with_first_half(mut self, half: u64) -> Self {
        self.0[..8].copy_from_slice(&half.to_be_bytes());
        self
    }

    /// Reads 32 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut id = [0; 16];
        read_hex(text, &mut id).then_some(Self(id))
    }
}

impl SpanId {
    /// Reads an id in its wire form; `None` unless it has 8 bytes that are not all zero.
    pub fn from_wire(bytes: &[u8]) -> Option<Self> {
        let id: [u8; 8] = bytes.try_into().ok()?;
        (id != [0; 8]).then_some(Self(id))
    }

    /// Reads 16 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut id = [0; 8];
        read_hex(text, &mut id).then_some(Self(id))
    }

    /// Returns true if the id is absent.
    pub fn is_none(self) -> bool {
        self.0 == [0; 8]
    }
}

impl EvaluationId {
    /// Returns the id of the exported evaluation span: the first eight bytes.
    pub fn span_id(self) -> SpanId {
        let mut id = [0; 8];
        id.copy_from_slice(&self.0[..8]);
        if id == [0; 8] {
            id[7] = 1;
        }
        SpanId(id)
    }
}

fn read_hex(text: &str, out: &mut [u8]) -> bool {
    let text = text.as_bytes();
    if text.len() != out.len() * 2 {
        return false;
    }
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |c: u8| (c as char).to_digit(16);
        match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => *byte = (high * 16 + low) as u8,
            _ => return false,
        }
    }
    true
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for byte in bytes {
        write!(f, "{byte:02x}")?;
    }
    Ok(())
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for EvaluationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for EvaluationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_wrong_length_or_all_zero_are_refused() {
        assert_eq!(TraceId::from_wire(&[1; 15]), None);
        assert_eq!(TraceId::from_wire(&[0; 16]), None);
        assert_eq!(SpanId::from_wire(&[]), None);
        assert_eq!(SpanId::from_wire(&[0; 8]), None);
    }

    #[test]
    fn hex_form_reads_back() {
        let id = TraceId([0xab; 16]);
        assert_eq!(TraceId::from_hex(&id.to_string()), Some(id));
        assert_eq!(TraceId::from_hex("xyz"), None);
    }
}
