//! Silent truncation: servers that truncate a request to their context without an error, and
//! answer.
//!
//! Ollama does by default. Such a server reports a token count at its limit and below any
//! tokenizer's count of the text. Either sign alone misleads: tokenizers differ by a factor of ten
//! in some scripts, and a count near a limit may be chance.

use crate::judge::wire::JudgeQuestion;
use spanscore_base::model::Outcome;

/// Smallest and largest truncation limit of servers; the ones between are powers of two.
const LIMITS: (u64, u64) = (2_048, 131_072);
/// Inverse of the relative distance at which a count is near a limit.
const NEAR_PARTS: u64 = 50;
/// Parts of a token, for sums of shares.
const TOKEN_PARTS: u64 = 60;

/// Returns true if a judge that reports this many tokens cannot have read the whole request.
pub(super) fn is_cut(question: &JudgeQuestion, reported: u64) -> bool {
    let limits = std::iter::successors(Some(LIMITS.0), |limit| Some(limit * 2));
    let is_near = limits
        .take_while(|limit| *limit <= LIMITS.1)
        .any(|limit| reported.abs_diff(limit) <= limit / NEAR_PARTS);
    is_near && {
        let remark = question.remark.as_deref().unwrap_or_default();
        let texts = [&question.prompt.system, &question.prompt.user, remark];
        reported < texts.into_iter().map(least_tokens).sum()
    }
}

/// Returns the outcome of a truncated request.
pub(super) fn outcome(estimate: u64, reported: u64) -> Outcome {
    let error = format!(
        "about {estimate} tokens were sent and {reported} were read: the judge cuts what does \
         not fit; raise its context (for Ollama `num_ctx`) or lower `evidence_tokens`"
    );
    Outcome::Failed { error_type: "judge_context_truncated", error }
}

/// Returns the least number of tokens of a text.
///
/// Tokenizers split at spaces, between letters and digits, and before all punctuation except one
/// character, which may belong to the next word. Within a word a token has a limited number of a
/// script's letters. A run of one character may be one token.
fn least_tokens(text: &str) -> u64 {
    let mut pieces = TextPieces::default();
    let mut last = None;
    for c in text.chars() {
        if last.replace(c) != Some(c) {
            pieces.add(c);
        }
    }
    pieces.end(PieceKind::Space);
    pieces.tokens
}

/// Kind of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PieceKind {
    #[default]
    Space,
    Digits,
    Word,
    Punctuation,
}

/// Pieces of a text, counted in turn.
#[derive(Debug, Default)]
struct TextPieces {
    tokens: u64,
    piece: PieceKind,
    /// Parts of tokens in the present word, or the length of the punctuation.
    size: u64,
}

impl TextPieces {
    fn add(&mut self, c: char) {
        let piece = match c {
            _ if c.is_whitespace() => PieceKind::Space,
            '0'..='9' => PieceKind::Digits,
            'a'..='z' | 'A'..='Z' | '\'' => PieceKind::Word,
            _ if c.is_ascii() => PieceKind::Punctuation,
            _ => PieceKind::Word,
        };
        if piece != self.piece {
            self.end(piece);
        }
        self.size += if piece == PieceKind::Word { least_parts(c) } else { 1 };
    }

    /// Ends a piece, and begins the next.
    fn end(&mut self, next: PieceKind) {
        self.tokens += match self.piece {
            PieceKind::Space => 0,
            PieceKind::Digits => 1,
            PieceKind::Word => self.size.div_ceil(TOKEN_PARTS),
            PieceKind::Punctuation => u64::from(self.size > 1 || next != PieceKind::Word),
        };
        (self.piece, self.size) = (next, 0);
    }
}

/// Returns the least share of a token for a character of a word: measured with five tokenizers
/// (`tests/fixtures/judges/scripts.jsonl`), with a margin for better ones.
fn least_parts(c: char) -> u64 {
    let characters = match c {
        // Latin.
        '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => 20,
        // India, Tibet, Southeast Asia, Georgia.
        '\u{900}'..='\u{10ff}' | '\u{1780}'..='\u{17ff}' => 5,
        // Kana and signs of China and Japan.
        '\u{2e80}'..='\u{33ff}' => 4,
        // Syllables of Ethiopia and Korea.
        '\u{1200}'..='\u{139f}' | '\u{ac00}'..='\u{d7af}' => 3,
        // Han.
        '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}' => 2,
        // Other alphabets.
        _ => 6,
    };
    TOKEN_PARTS / characters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(user: &str, times: usize, reported: u64, expected: bool) {
        let question = JudgeQuestion::about(&user.repeat(times));
        assert_eq!(is_cut(&question, reported), expected, "{times} times {user:?}: {reported}");
    }

    #[test]
    fn only_a_count_at_a_limit_and_below_what_the_text_takes_is_a_cut() {
        // 45 bytes and 10 tokens each.
        let english = "The parcel of order 17 left the warehouse at ";
        for limit in [2_048, 2_008, 2_088, 4_096, 8_192] {
            check(english, 1_000, limit, true);
        }
        check(english, 1_000, 3_000, false);
        check(english, 1_000, 2_100, false);
        check(english, 1_000, 0, false);
        check(english, 20_000, 65_536, true);
        // A record of 21 kB, truncated to Ollama's default context.
        check(english, 460, 4_096, true);
        check(english, 400, 4_096, false);
    }

    #[test]
    fn runs_are_complete() {
        check("a                                                   ", 2_000, 2_048, false);
        check("----------", 40_000, 4_096, false);
        check("AAAAAAAAAAAAAAAAAAAAAAAAAAAA\n", 2_000, 2_048, false);
    }

    /// Texts of 30 scripts and forms with the counts of five tokenizers. No complete one is
    /// reported as truncated, even with a count at a limit; servers that keep 2,048 or 4,096 tokens
    /// are detected at three sizes.
    #[test]
    fn scripts_are_complete_where_all_was_read_and_cut_where_it_was_not() {
        let file = include_str!("../../../../../tests/fixtures/judges/scripts.jsonl");
        let mut scripts = 0;
        for line in file.lines() {
            let case: serde_json::Value = serde_json::from_str(line).expect("a case");
            let text = case["text"].as_str().expect("a text");
            for (_, counted) in case["tokens"].as_object().expect("counts") {
                let counted = counted.as_f64().expect("a count") / 100.0;
                for limit in [2_048, 4_096, 8_192] {
                    check(text, (limit as f64 / counted) as usize, limit, false);
                }
            }
            for bytes in [80_000, 120_000, 160_000] {
                check(text, bytes / text.len(), 2_048, true);
                check(text, bytes / text.len(), 4_096, true);
            }
            scripts += 1;
        }
        assert!(scripts >= 30, "{scripts}");
    }
}
