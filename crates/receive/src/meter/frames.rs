//! Incremental parser of HTTP/2 frame heads in chunks of bytes (RFC 9113, section 4.1).

/// Bytes of a frame's head.
const HEAD_BYTES: usize = 9;

/// Frame types, as numbered in RFC 9113, section 6.
pub(super) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// A frame's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) bytes: usize,
    pub(super) kind: u8,
    flags: u8,
}

impl FrameHead {
    /// Returns the lowest flag: END_STREAM of data and headers, ACK of a ping.
    pub(super) fn has_first_flag(self) -> bool {
        self.flags & 0x1 != 0
    }

    /// Returns true if this frame ends its headers.
    fn ends_headers(self) -> bool {
        self.flags & 0x4 != 0
    }
}

/// Parser state: the current frame and its partial head.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    frame: FrameHead,
    /// Bytes of the frame still to come.
    left: usize,
    /// Bytes of headers whose last frame is still to come.
    headers: usize,
}

impl Frames {
    /// Reads on; `see` receives the head of each new frame.
    pub(super) fn read(&mut self, mut bytes: &[u8], mut see: impl FnMut(FrameHead)) {
        while !bytes.is_empty() {
            let taken = self.left.min(bytes.len());
            bytes = &bytes[taken..];
            self.left -= taken;
            let missing = (HEAD_BYTES - self.head_bytes).min(bytes.len());
            let (head, rest) = bytes.split_at(missing);
            self.head[self.head_bytes..self.head_bytes + missing].copy_from_slice(head);
            self.head_bytes += missing;
            bytes = rest;
            if self.head_bytes == HEAD_BYTES {
                self.end();
                self.begin();
                see(self.frame);
            }
        }
    }

    /// Completes the frame before the next one.
    fn end(&mut self) {
        if matches!(self.frame.kind, kind::HEADERS | kind::CONTINUATION) {
            self.headers += self.frame.bytes;
            if self.frame.ends_headers() {
                self.headers = 0;
            }
        }
    }

    fn begin(&mut self) {
        let [a, b, c, kind, flags, ..] = self.head;
        let bytes = u32::from_be_bytes([0, a, b, c]) as usize;
        self.frame = FrameHead { bytes, kind, flags };
        (self.left, self.head_bytes) = (bytes, 0);
    }

    /// Returns the bytes waiting for the rest of their frame or headers.
    pub(super) fn waiting(&self) -> usize {
        let is_whole = self.left == 0;
        let ends = is_whole && (self.frame.kind == kind::DATA || self.frame.ends_headers());
        if ends {
            return 0;
        }
        self.headers + if is_whole { 0 } else { self.frame.bytes - self.left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, bytes: usize) -> Vec<u8> {
        let length = (bytes as u32).to_be_bytes();
        let head = [length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        [&head[..], &vec![7; bytes]].concat()
    }

    #[test]
    fn heads_are_seen_however_the_bytes_come() {
        let sent = [frame(4, 0, 0), frame(1, 4, 20), frame(0, 0, 300), frame(6, 0, 8)].concat();
        for piece in [1, 2, 7, 9, 50, 1000] {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for bytes in sent.chunks(piece) {
                frames.read(bytes, |head| seen.push((head.kind, head.bytes)));
            }
            assert_eq!(seen, [(4, 0), (1, 20), (0, 300), (6, 8)], "{piece}");
            assert_eq!(frames.waiting(), 0, "{piece}");
        }
    }

    #[test]
    fn what_waits_is_the_part_of_a_frame_and_headers_without_their_end() {
        let mut frames = Frames::default();
        frames.read(&frame(0, 0, 500)[..9 + 400], |_| {});
        assert_eq!(frames.waiting(), 400);
        frames.read(&[7; 100], |_| {});
        assert_eq!(frames.waiting(), 0);
        frames.read(&frame(1, 0, 50), |_| {});
        frames.read(&frame(9, 0, 60)[..9 + 10], |_| {});
        assert_eq!(frames.waiting(), 60, "of both frames");
        frames.read(&[7; 50], |_| {});
        frames.read(&frame(9, 4, 5), |_| {});
        assert_eq!(frames.waiting(), 0);
    }
}
