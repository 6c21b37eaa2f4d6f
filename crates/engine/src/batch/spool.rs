//! Append-only spool with reads by position: in memory while small, then in an unnamed temporary
//! file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

/// Size limit of the spool in memory, bytes.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;

/// Write buffer of the file, bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Position and length of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolPlace {
    /// Bytes before the entry.
    pub offset: u64,
    /// Bytes of the entry.
    pub len: u32,
}

/// Spool of byte strings.
#[derive(Default)]
pub struct Spool {
    memory: Vec<u8>,
    memory_max: usize,
    file: Option<BufWriter<File>>,
    len: u64,
}

impl Spool {
    /// Returns an empty spool; beyond `memory_max` bytes it moves to a temporary file.
    pub fn new(memory_max: usize) -> Self {
        Self { memory_max, ..Self::default() }
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// The file cannot be created or written, such as on a full disk.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<SpoolPlace> {
        let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let place = SpoolPlace { offset: self.len, len };
        if self.file.is_none() && self.memory.len() + bytes.len() > self.memory_max {
            let mut file = BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile()?);
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(bytes)?,
            None => self.memory.extend_from_slice(bytes),
        }
        self.len += u64::from(len);
        Ok(place)
    }

    /// Flushes the write buffer, after which entries can be read.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }

    /// Appends an entry to `out`, after [`finish`](Self::finish).
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, place: SpoolPlace, out: &mut Vec<u8>) -> io::Result<()> {
        let len = place.len as usize;
        match &self.file {
            Some(file) => {
                let start = out.len();
                out.resize(start + len, 0);
                file.get_ref().read_exact_at(&mut out[start..], place.offset)
            }
            None => {
                let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
                let found = self.memory.get(start..start.saturating_add(len));
                out.extend_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_reads_back_from_memory_and_from_a_file() {
        for memory_max in [usize::MAX, 10, 0] {
            let mut spool = Spool::new(memory_max);
            let texts: Vec<String> =
                (0..50).map(|at| "x".repeat(at % 7) + &at.to_string()).collect();
            let places: Vec<_> =
                texts.iter().map(|text| spool.push(text.as_bytes()).unwrap()).collect();
            spool.finish().unwrap();
            assert_eq!(spool.file.is_some(), memory_max < 100);
            for (text, place) in texts.iter().zip(places).rev() {
                let mut read = Vec::new();
                spool.read(place, &mut read).unwrap();
                assert_eq!(read, text.as_bytes());
            }
        }
    }
}
