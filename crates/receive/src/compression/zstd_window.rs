//! Window sizes of zstd frames, which determine the decoder's memory: each is in the frame's header
//! (RFC 8878, section 3.1.1).

/// Magic number of a frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Returns the largest window of all frames in bytes; the decoder handles malformed ones.
pub(super) fn largest(mut body: &[u8]) -> usize {
    let mut largest = 0;
    while !body.is_empty() {
        largest = largest.max(window(body).unwrap_or(0));
        match zstd::zstd_safe::find_frame_compressed_size(body) {
            Ok(bytes) if bytes > 0 => body = body.get(bytes..).unwrap_or_default(),
            _ => break,
        }
    }
    largest
}

/// Returns the window of a frame in bytes; without one, the size of its content.
fn window(frame: &[u8]) -> Option<usize> {
    let rest = frame.strip_prefix(&MAGIC)?;
    let descriptor = rest.first()?;
    let window = rest.get(1)?;
    if descriptor & 0x20 != 0 {
        let content = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten()?;
        return Some(usize::try_from(content).unwrap_or(usize::MAX));
    }
    let base = 1_usize << (10 + (window >> 3));
    Some(base + base / 8 * usize::from(window & 7))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_window_of_all_frames_is_told() {
        let frame = |log: u32| {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
            encoder.window_log(log).unwrap();
            std::io::Write::write_all(&mut encoder, b"spans").unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(largest(&frame(20)), 1 << 20);
        assert_eq!(largest(&[frame(12), frame(23), frame(20)].concat()), 1 << 23);
        assert_eq!(largest(&zstd::bulk::compress(b"spans", 1).unwrap()), 5, "a single segment");
        assert_eq!((largest(b"no zstd"), largest(&MAGIC)), (0, 0));
    }
}
