//! Safety check of patterns as in the source: a heuristic for catastrophic backtracking.
//!
//! It counts repetitions and finds nested ones, with a tokenizer for a part of the language, and
//! rejects patterns that it cannot tokenize. Our matching is always linear, so this only reproduces
//! the source's rejections. Rules: `davisjam/safe-regex` by way of `fastify/safe-regex2`, tokenizer
//! `fent/ret.js`.

/// Limit on repetitions.
const REPETITIONS_MAX: usize = 25;
/// Replacement for control characters and surrogates, which have no syntax for the tokenizer.
const OTHER: char = '\u{1}';

enum Token {
    Atom,
    /// Alternatives of a group.
    Group(Vec<Vec<Token>>),
    Repetition(Box<Token>),
}

/// Returns true if the source would try the pattern.
pub(in crate::kinds::outputs::output_rules) fn is_accepted(pattern: &str) -> bool {
    let chars = decoded(pattern);
    let mut reader = PatternReader { chars: &chars, at: 0 };
    let Some(alternatives) = reader.alternatives(0) else { return false };
    reader.at == chars.len() && walk_all(&alternatives, 0, &mut 0)
}

/// Decodes the escapes that the tokenizer decodes first. Escapes of syntax characters stay, except
/// those of a backslash.
fn decoded(pattern: &str) -> Vec<char> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = Vec::with_capacity(chars.len());
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let rest = &chars[at..];
        if rest.starts_with(&['[', '\\', 'b', ']']) {
            out.push(OTHER);
            at += 4;
            continue;
        }
        // An escaped backslash stays, and so does a following text that only looks like an escape.
        let twice = if c == '\\' { escaped(&rest[1..]) } else { None };
        if let Some((_, length)) = twice {
            out.extend(&rest[..=length]);
            at += length + 1;
            continue;
        }
        let Some((decoded, length)) = escaped(rest) else {
            out.push(c);
            at += 1;
            continue;
        };
        if "[]{}^$.|?*+()".contains(decoded) {
            out.push('\\');
        }
        out.push(decoded);
        at += length;
    }
    out
}

/// Decodes the escape at the start; returns its character and its length.
fn escaped(chars: &[char]) -> Option<(char, usize)> {
    let hex = |digits: usize| {
        let digits: String = chars.get(2..2 + digits)?.iter().collect();
        let upper = digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'));
        let value = upper.then(|| u32::from_str_radix(&digits, 16).ok()).flatten()?;
        Some((char::from_u32(value).unwrap_or(OTHER), digits.len() + 2))
    };
    match chars {
        ['\\', 'u', ..] => hex(4),
        ['\\', 'x', ..] => hex(2),
        ['\\', 'c', '@'..='Z' | '[' | '\\' | ']' | '^' | '?', ..] => Some((OTHER, 3)),
        ['\\', '0' | 't' | 'n' | 'v' | 'f' | 'r', ..] => Some((OTHER, 2)),
        _ => None,
    }
}

fn walk_all(alternatives: &[Vec<Token>], height: usize, count: &mut usize) -> bool {
    alternatives.iter().flatten().all(|token| walk(token, height, count))
}

fn walk(token: &Token, height: usize, count: &mut usize) -> bool {
    match token {
        Token::Atom => true,
        Token::Group(alternatives) => walk_all(alternatives, height, count),
        Token::Repetition(inner) => {
            *count += 1;
            if height > 0 || *count > REPETITIONS_MAX {
                return false;
            }
            // A repetition directly within a repetition is not checked further.
            match &**inner {
                Token::Group(alternatives) => walk_all(alternatives, height + 1, count),
                _ => true,
            }
        }
    }
}

struct PatternReader<'a> {
    chars: &'a [char],
    at: usize,
}

impl PatternReader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Parses alternatives; `None` if they cannot be tokenized. The depth is bounded by the length
    /// of a pattern.
    fn alternatives(&mut self, depth: usize) -> Option<Vec<Vec<Token>>> {
        let mut all = vec![Vec::new()];
        while let Some(c) = self.peek(0) {
            let last = all.last_mut()?;
            match c {
                ')' => return (depth > 0).then_some(all),
                '|' => {
                    self.at += 1;
                    all.push(Vec::new());
                }
                '(' => {
                    self.at += 1;
                    self.group_head()?;
                    let inner = self.alternatives(depth + 1)?;
                    (self.peek(0) == Some(')')).then(|| self.at += 1)?;
                    last.push(Token::Group(inner));
                }
                '*' | '+' | '?' => {
                    self.at += 1;
                    let token = last.pop()?;
                    last.push(Token::Repetition(Box::new(token)));
                }
                '{' if self.count_len().is_some() => {
                    self.at += self.count_len()?;
                    let token = last.pop()?;
                    last.push(Token::Repetition(Box::new(token)));
                }
                '[' => {
                    self.class()?;
                    last.push(Token::Atom);
                }
                '\\' => {
                    self.peek(1)?;
                    self.at += 2;
                    last.push(Token::Atom);
                }
                _ => {
                    self.at += 1;
                    last.push(Token::Atom);
                }
            }
        }
        (depth == 0).then_some(all)
    }

    fn group_head(&mut self) -> Option<()> {
        if self.peek(0) != Some('?') {
            return Some(());
        }
        match self.peek(1)? {
            ':' | '=' | '!' => {
                self.at += 2;
                Some(())
            }
            '<' => {
                let start = self.at + 2;
                let end = self.chars[start..].iter().position(|&c| c == '>')? + start;
                let name = &self.chars[start..end];
                let first = name.first()?;
                let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
                (!first.is_ascii_digit() && name.iter().all(plain)).then(|| self.at = end + 1)
            }
            _ => None,
        }
    }

    /// Returns the length of `{n}`, `{n,}` or `{n,m}` at the current position.
    fn count_len(&self) -> Option<usize> {
        let digits = |mut at: usize| {
            let start = at;
            while self.peek(at).is_some_and(|c| c.is_ascii_digit()) {
                at += 1;
            }
            (at, at > start)
        };
        let (mut at, some) = digits(1);
        if !some {
            return None;
        }
        if self.peek(at) == Some(',') {
            at = digits(at + 1).0;
        }
        (self.peek(at) == Some('}')).then_some(at + 1)
    }

    fn class(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek(0)? {
                ']' => {
                    self.at += 1;
                    return Some(());
                }
                '\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_accepted;

    #[test]
    fn refuses_nested_repetition_and_unknown_forms() {
        for pattern in [
            "(a+)+$", "(\\d{3}-?){2}", "(a+)?", "(", "[x", "(?<=x)", "(?i:x)", "(?P<n>)", "(?>a)",
            "*a", "\\", "(?<1a>x)", "a)", "(?:\\w+\\s?)+$", "(a+|b)*", "(?<é>x)", "[\\x5C]",
            "[[\\b]",
        ] {
            assert!(!is_accepted(pattern), "{pattern}");
        }
        assert!(!is_accepted(&"a*".repeat(26)));
    }

    #[test]
    fn accepts_what_it_does_not_see() {
        for pattern in
            ["(a+)+?", "(a|a)*$", "a**", "a{2,1}", "(?=.*\\d)", "[a+]+", "{", "a{,2}", "\\x5C(a"]
        {
            assert!(is_accepted(pattern), "{pattern}");
        }
        assert!(is_accepted(&"a*".repeat(25)));
    }
}
