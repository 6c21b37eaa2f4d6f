//! Ids of traces, spans and evaluations.

use std::fmt;

use data_encoding::HEXLOWER_PERMISSIVE;

/// A W3C trace id: 16 bytes, never all zero in valid data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TraceId(pub [u8; 16]);

/// A W3C span id: 8 bytes; all zero stands for "none".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SpanId(pub [u8; 8]);

/// Identity of one evaluation: the same evidence judged by the same evaluator has the same id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EvaluationId(pub [u8; 16]);

macro_rules! id_forms {
    ($($Id:ident of $bytes:literal),*) => {$(
        impl $Id {
            /// Reads an id in its wire form; `None` unless it has all its bytes, not all zero.
            pub fn from_wire(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().filter(|id| *id != [0; $bytes]).map(Self)
            }

            /// Reads hexadecimal digits, two for each byte.
            pub fn from_hex(text: &str) -> Option<Self> {
                HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
            }
        }

        impl fmt::Display for $Id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $Id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

id_forms!(TraceId of 16, SpanId of 8, EvaluationId of 16);

impl TraceId {
    /// Replaces the first half.
    pub fn with_first_half(mut self, half: u64) -> Self {
        self.0[..8].copy_from_slice(&half.to_be_bytes());
        self
    }
}

impl SpanId {
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
