//! Transcoding walk from JSON to protobuf, in one pass and without recursion.
//!
//! A nested message is preceded by its length. Near the top one byte is reserved for it, and a
//! message of 128 bytes or more, as most spans are, is moved to make room. So a byte moves at most
//! [`EXACT_DEPTH_MAX`] times. Deeper down moves could cost the square of the input, so the length
//! is written padded there, which every decoder reads.

use bytes::Bytes;

use super::reader::OtlpJsonReader;
use super::schema::{FieldKind, FieldSchema, MessageSchema};
use super::{DEPTH_MAX, OtlpJsonError, scalar};

/// Nested messages up to this depth have lengths without padding.
const EXACT_DEPTH_MAX: usize = 24;

/// Bytes of a padded length: enough for 2^28 bytes.
const PADDED_LENGTH_BYTES: usize = 4;

/// Bytes reserved before an entry is written; longer texts reserve their room themselves.
const SPARE_BYTES: usize = 256;

/// Smallest growth of the output in bytes.
const GROWTH_BYTES: usize = 1024;

/// Largest padded length.
const PADDED_LENGTH_MAX: usize = (1 << 28) - 1;

/// Open object or list in the text.
enum JsonFrame {
    /// An object that is a message; `length_at` is the place of its length.
    Message { message: &'static MessageSchema, length_at: Option<usize> },
    /// A list of a field's values.
    List(&'static FieldSchema),
    /// An object below an unknown field.
    UnknownObject,
    /// A list below an unknown field.
    UnknownList,
}

/// Transcodes one request; nothing but white space may follow it.
pub(super) fn transcode(
    root: &'static MessageSchema,
    text: &[u8],
    hold: &mut dyn FnMut(usize) -> bool,
) -> Result<Bytes, OtlpJsonError> {
    let mut walk = Transcoder {
        reader: OtlpJsonReader::new(text)?,
        out: Vec::with_capacity(text.len() / 2),
        open: Vec::with_capacity(EXACT_DEPTH_MAX),
        is_first: true,
        held: 0,
        hold,
    };
    walk.reader.expect(b'{')?;
    walk.open(JsonFrame::Message { message: root, length_at: None })?;
    while !walk.open.is_empty() {
        walk.make_room()?;
        walk.step()?;
    }
    walk.make_room()?;
    match walk.reader.peek() {
        None => Ok(walk.out.into()),
        Some(_) => Err(walk.reader.error("something follows the request")),
    }
}

struct Transcoder<'a, 'h> {
    reader: OtlpJsonReader<'a>,
    out: Vec<u8>,
    open: Vec<JsonFrame>,
    /// True before the first entry of the innermost object or list.
    is_first: bool,
    /// Bytes of output granted by `hold`.
    held: usize,
    hold: &'h mut dyn FnMut(usize) -> bool,
}

impl Transcoder<'_, '_> {
    /// Reserves room for the next entry, in steps of a quarter that `hold` must grant.
    fn make_room(&mut self) -> Result<(), OtlpJsonError> {
        if self.out.capacity() - self.out.len() < SPARE_BYTES {
            self.out.reserve_exact((self.out.len() / 4).max(GROWTH_BYTES));
        }
        let more = self.out.capacity().saturating_sub(self.held);
        if more > 0 && !(self.hold)(more) {
            return Err(self.reader.error("no room for more"));
        }
        self.held += more;
        Ok(())
    }

    /// Reads the next entry of the innermost object or list, or its end.
    fn step(&mut self) -> Result<(), OtlpJsonError> {
        let Some(frame) = self.open.last() else { return Ok(()) };
        let end = match frame {
            JsonFrame::Message { .. } | JsonFrame::UnknownObject => b'}',
            JsonFrame::List(_) | JsonFrame::UnknownList => b']',
        };
        if self.reader.peek() == Some(end) {
            self.reader.bump();
            return self.close();
        }
        if !std::mem::replace(&mut self.is_first, false) {
            self.reader.expect(b',')?;
        }
        match *frame {
            JsonFrame::Message { message, .. } => {
                let name = self.reader.string()?;
                self.reader.expect(b':')?;
                match message.field(&name) {
                    Some(field) => self.field(field),
                    None => self.unknown(),
                }
            }
            JsonFrame::List(field) => self.element(field),
            JsonFrame::UnknownObject => {
                self.reader.string()?;
                self.reader.expect(b':')?;
                self.unknown()
            }
            JsonFrame::UnknownList => self.unknown(),
        }
    }

    fn field(&mut self, field: &'static FieldSchema) -> Result<(), OtlpJsonError> {
        match (self.reader.peek(), field.is_list) {
            (Some(b'n'), _) => self.reader.word("null"),
            (Some(b'['), true) => {
                self.reader.bump();
                self.open(JsonFrame::List(field))
            }
            (_, true) => Err(self.reader.error(format!("`{}` must be a list", field.name))),
            (_, false) => self.value(field),
        }
    }

    /// Reads an element of a list. A `null` keeps its place if it stands for a message.
    fn element(&mut self, field: &'static FieldSchema) -> Result<(), OtlpJsonError> {
        if self.reader.peek() != Some(b'n') {
            return self.value(field);
        }
        self.reader.word("null")?;
        if matches!(field.kind, FieldKind::Message(_)) {
            scalar::tag(&mut self.out, field.number, scalar::WIRE_BYTES);
            self.out.push(0);
        }
        Ok(())
    }

    fn value(&mut self, field: &'static FieldSchema) -> Result<(), OtlpJsonError> {
        let FieldKind::Message(message) = field.kind else {
            return scalar::write(&mut self.reader, field, &mut self.out);
        };
        if self.reader.peek() != Some(b'{') {
            return Err(self.reader.error(format!("`{}` must be an object", field.name)));
        }
        self.reader.bump();
        scalar::tag(&mut self.out, field.number, scalar::WIRE_BYTES);
        let length_at = Some(self.out.len());
        let kept = if self.is_exact() { 1 } else { PADDED_LENGTH_BYTES };
        self.out.resize(self.out.len() + kept, 0);
        self.open(JsonFrame::Message { message, length_at })
    }

    fn unknown(&mut self) -> Result<(), OtlpJsonError> {
        let frame = match self.reader.peek() {
            Some(b'{') => JsonFrame::UnknownObject,
            Some(b'[') => JsonFrame::UnknownList,
            _ => return self.reader.skip_scalar(),
        };
        self.reader.bump();
        self.open(frame)
    }

    fn open(&mut self, frame: JsonFrame) -> Result<(), OtlpJsonError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(self.reader.error(format!("nested deeper than {DEPTH_MAX} levels")));
        }
        self.open.push(frame);
        self.is_first = true;
        Ok(())
    }

    fn close(&mut self) -> Result<(), OtlpJsonError> {
        let frame = self.open.pop();
        self.is_first = false;
        let Some(JsonFrame::Message { length_at: Some(at), .. }) = frame else { return Ok(()) };
        if !self.is_exact() {
            return self.write_padded_length(at);
        }
        let len = self.out.len() - at - 1;
        let more = scalar::varint_bytes(len as u64) - 1;
        if more > 0 {
            self.out.resize(self.out.len() + more, 0);
            self.out.copy_within(at + 1..at + 1 + len, at + 1 + more);
        }
        scalar::varint_at(&mut self.out[at..=at + more], len as u64);
        Ok(())
    }

    fn write_padded_length(&mut self, at: usize) -> Result<(), OtlpJsonError> {
        let len = self.out.len() - at - PADDED_LENGTH_BYTES;
        if len > PADDED_LENGTH_MAX {
            return Err(self.reader.error("a nested value is too large"));
        }
        scalar::varint_at(&mut self.out[at..at + PADDED_LENGTH_BYTES], len as u64);
        Ok(())
    }

    /// Returns true if the message that opens or closes here has an exact length.
    fn is_exact(&self) -> bool {
        self.open.len() <= EXACT_DEPTH_MAX
    }
}
