//! Bytes that are written once, end to end, and read back by place: in memory while they are few,
//! then in a file without a name that goes with the process.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

/// Bytes that stay in memory.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;

/// Buffer for writing to the file, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Where some bytes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolPlace {
    /// Bytes before them.
    pub offset: u64,
    /// How many they are.
    pub len: u32,
}

/// The bytes.
#[derive(Default)]
pub struct Spool {
    memory: Vec<u8>,
    memory_max: usize,
    file: Option<BufWriter<File>>,
    len: u64,
}

impl Spool {
    /// Empty; beyond `memory_max` bytes a file is made in the folder for temporary files.
    pub fn new(memory_max: usize) -> Self {
        Self { memory_max, ..Self::default() }
    }

    /// Appends some bytes.
    ///
    /// # Errors
    /// What the system says of the file, such as that the disk is full.
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

    /// Ends the writing: what is buffered can be read from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }

    /// Appends to `out` what stands at a place, once the writing has ended.
    ///
    /// # Errors
    /// What the system says.
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
