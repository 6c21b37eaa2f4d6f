//! Finished records after a committed position, listed in the commit's metadata.
//!
//! With the position alone, the next owner would read later records of a finished trace whose first
//! records precede the position, and judge them separately. So a bit is committed for each record
//! from the position on, and the next owner skips finished ones. Most bits form long runs: old
//! records are finished, new ones are not.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Largest metadata of a commit, bytes: the brokers' default.
pub(super) const METADATA_BYTES_MAX: usize = 4096;
/// Limit on records from a position on with a bit.
const RECORDS_MAX: usize = 8 << 20;
/// First word of the metadata, which distinguishes it from that of others.
const MARK: &str = "spanscore1";
const COMPRESSION: i32 = 3;

/// Records from an offset on, each finished or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DoneRecords {
    start: i64,
    /// One bit for each record, beginning with the lowest bit of the first byte.
    bits: Vec<u8>,
    len: usize,
}

impl DoneRecords {
    /// Returns records from `start` up to `end`, finished except those in `needed`, which is
    /// sorted.
    pub(super) fn except(start: i64, end: i64, needed: impl Iterator<Item = i64>) -> Self {
        let len = usize::try_from(end - start).unwrap_or(0).min(RECORDS_MAX);
        let mut own = Self { start, bits: vec![0xff; len.div_ceil(8)], len };
        needed.for_each(|offset| own.clear(offset));
        own
    }

    /// Returns the offset after the last record with a bit.
    pub(super) fn end(&self) -> i64 {
        self.start + self.len as i64
    }

    /// Returns true if a record is finished.
    pub(super) fn has(&self, offset: i64) -> bool {
        self.place(offset).is_some_and(|(byte, bit)| self.bits[byte] & bit != 0)
    }

    fn clear(&mut self, offset: i64) {
        if let Some((byte, bit)) = self.place(offset) {
            self.bits[byte] &= !bit;
        }
    }

    fn place(&self, offset: i64) -> Option<(usize, u8)> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        (at < self.len).then_some((at / 8, 1 << (at % 8)))
    }

    /// Encodes it as metadata of at most `bytes_max` bytes; returns true as well if the last
    /// records were left out. Empty if none fits.
    pub(super) fn encode(&self, bytes_max: usize) -> (String, bool) {
        let mut len = self.len;
        loop {
            let bits = self.bits.get(..len.div_ceil(8)).unwrap_or(&self.bits);
            // Fails only for lack of memory; the metadata is then empty.
            let packed = zstd::bulk::compress(bits, COMPRESSION).unwrap_or_default();
            let text = format!("{MARK} {len} {}", STANDARD_NO_PAD.encode(packed));
            if text.len() <= bytes_max {
                return (text, len < self.len);
            }
            if len == 0 {
                return (String::new(), self.len > 0);
            }
            len /= 2;
        }
    }

    /// Reads metadata of a commit at an offset; `None` for that of other programs.
    pub(super) fn decode(start: i64, metadata: &str) -> Option<Self> {
        let mut words = metadata.split(' ');
        let [mark, len, packed] = [words.next()?, words.next()?, words.next()?];
        let len: usize = len.parse().ok().filter(|len| mark == MARK && *len <= RECORDS_MAX)?;
        let packed = STANDARD_NO_PAD.decode(packed).ok()?;
        let bits = zstd::bulk::decompress(&packed, len.div_ceil(8)).ok()?;
        (bits.len() == len.div_ceil(8)).then_some(Self { start, bits, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_are_not_needed_are_done() {
        let done = DoneRecords::except(10, 30, [10, 12, 29, 99].into_iter());
        let needed: Vec<i64> = (0..40).filter(|offset| !done.has(*offset)).collect();
        let outside = (0..10).chain(30..40);
        let mut expected: Vec<i64> = outside.chain([10, 12, 29]).collect();
        expected.sort_unstable();
        assert_eq!((needed, done.end()), (expected, 30));
        let (text, is_cut) = done.encode(METADATA_BYTES_MAX);
        assert_eq!((DoneRecords::decode(10, &text), is_cut), (Some(done), false));
    }

    #[test]
    fn long_runs_take_no_room_and_what_has_none_is_cut() {
        let needed = (400_000..500_000).chain([3, 77_000]);
        let (text, is_cut) = DoneRecords::except(0, 500_000, needed).encode(METADATA_BYTES_MAX);
        assert!(text.len() < 200 && !is_cut, "{}", text.len());
        // A random bit for each record.
        let mut state = 1_u64;
        let dice = (0..1_000_000_i64).filter(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state & 1 == 0
        });
        let (text, is_cut) = DoneRecords::except(0, 1_000_000, dice).encode(METADATA_BYTES_MAX);
        let told = DoneRecords::decode(0, &text).unwrap();
        assert!(
            text.len() <= METADATA_BYTES_MAX && is_cut && told.end() > 10_000,
            "{}",
            told.end()
        );
        assert!(!told.has(999_999));
    }

    #[test]
    fn metadata_of_others_tells_nothing() {
        for metadata in ["", "other", "spanscore1", "spanscore1 9 !", "spanscore1 999999999 AAAA"] {
            assert_eq!(DoneRecords::decode(0, metadata), None, "{metadata}");
        }
    }
}
