//! Skipping of JSON values without building them, to check them or find their ends.

use smallvec::SmallVec;

use super::lexer::JsonLexer;

/// Open brackets stored without heap memory.
const OPEN_INLINE: usize = 64;

/// Limits on a value beside the grammar.
#[derive(Clone, Copy, Debug)]
pub struct SkipLimits {
    /// Deepest nesting.
    pub depth_max: usize,
    /// Longest number, bytes.
    pub number_bytes_max: usize,
}

impl SkipLimits {
    /// Only the grammar.
    pub const NONE: Self = Self { depth_max: usize::MAX, number_bytes_max: usize::MAX };
}

/// Consumes one value with the white space before it, and returns its text; `None` if it breaks the
/// grammar or a limit. Constant stack at any depth.
pub fn skip_value<'a>(lexer: &mut JsonLexer<'a>, limits: SkipLimits) -> Option<&'a str> {
    lexer.white_space();
    let start = lexer.at();
    // An explicit stack instead of recursion: the sender controls the depth, and the thread's free
    // stack is unknown here. One byte a level, true for an object.
    let mut open = SmallVec::<[bool; OPEN_INLINE]>::new();
    loop {
        match lexer.peek_token()? {
            bracket @ (b'{' | b'[') => {
                if open.len() >= limits.depth_max {
                    return None;
                }
                lexer.bump();
                lexer.white_space();
                let is_object = bracket == b'{';
                if !lexer.take(closing(is_object)) {
                    if is_object {
                        skip_key(lexer)?;
                    }
                    open.push(is_object);
                    continue;
                }
            }
            _ => skip_scalar(lexer, limits)?,
        }
        loop {
            let Some(is_object) = open.last().copied() else { return Some(lexer.since(start)) };
            lexer.white_space();
            if lexer.take(closing(is_object)) {
                open.pop();
                continue;
            }
            if !lexer.take(b',') {
                return None;
            }
            if is_object {
                lexer.white_space();
                skip_key(lexer)?;
            }
            break;
        }
    }
}

fn closing(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

/// Consumes a key and its colon.
fn skip_key(lexer: &mut JsonLexer<'_>) -> Option<()> {
    lexer.skip_string().ok()?;
    lexer.white_space();
    lexer.take(b':').then_some(())
}

fn skip_scalar(lexer: &mut JsonLexer<'_>, limits: SkipLimits) -> Option<()> {
    let skipped = match lexer.peek()? {
        b'"' => lexer.skip_string(),
        b't' => lexer.word("true"),
        b'f' => lexer.word("false"),
        b'n' => lexer.word("null"),
        _ => {
            let number = lexer.number().ok()?;
            return (number.text.len() <= limits.number_bytes_max).then_some(());
        }
    };
    skipped.ok()
}
