//! The source's guess whether a pattern is dangerous.
//!
//! It counts repetitions and looks for one inside another, over a tokenizer that knows fewer forms
//! than the language does; what it cannot tokenize it refuses. Our matching is linear whatever the
//! pattern, so this only decides whether the source would have refused. Rules:
//! `davisjam/safe-regex` by way of `fastify/safe-regex2`, tokenizer `fent/ret.js`.

/// More repetitions than this are refused.
const REPETITIONS_MAX: usize = 25;

enum Token {
    Atom,
    /// The alternatives of a group.
    Group(Vec<Vec<Token>>),
    Repetition(Box<Token>),
}

/// Whether the source would try the pattern.
pub(in super::super) fn is_accepted(pattern: &str) -> bool {
    let chars: Vec<char> = pattern.chars().collect();
    let mut reader = Reader { chars: &chars, at: 0 };
    let Some(alternatives) = reader.alternatives(0) else { return false };
    reader.at == chars.len() && walk_all(&alternatives, 0, &mut 0)
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
            // Neither a repeated repetition nor a repeated alternation is looked into.
            match &**inner {
                Token::Group(alternatives) if alternatives.len() == 1 => {
                    walk_all(alternatives, height + 1, count)
                }
                _ => true,
            }
        }
    }
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// `None` for what cannot be tokenized. Depth is bounded by the length of a pattern.
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
                    self.at += 1;
                    self.escape()?;
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
                let plain = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '$');
                (!first.is_numeric() && name.iter().all(plain)).then(|| self.at = end + 1)
            }
            _ => None,
        }
    }

    /// Length of `{n}`, `{n,}` or `{n,m}` here.
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

    fn escape(&mut self) -> Option<()> {
        let c = self.peek(0)?;
        self.at += 1;
        let hex = |n: usize| {
            (0..n).all(|i| {
                self.peek(i).is_some_and(|c| c.is_ascii_digit() || ('A'..='F').contains(&c))
            })
        };
        match c {
            'u' if hex(4) => self.at += 4,
            'x' if hex(2) => self.at += 2,
            'c' if self.peek(0).is_some_and(|c| matches!(c, '@'..='_' | '?')) => self.at += 1,
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::is_accepted;

    #[test]
    fn refuses_nested_repetition_and_unknown_forms() {
        for pattern in [
            "(a+)+$",
            "(\\d{3}-?){2}",
            "(a+)?",
            "(",
            "[x",
            "(?<=x)",
            "(?i:x)",
            "(?P<n>)",
            "(?>a)",
            "*a",
            "\\",
            "(?<1a>x)",
            "a)",
            "(?:\\w+\\s?)+$",
        ] {
            assert!(!is_accepted(pattern), "{pattern}");
        }
        assert!(!is_accepted(&"a*".repeat(26)));
    }

    #[test]
    fn accepts_what_it_does_not_see() {
        for pattern in ["(a+)+?", "(a|a)*$", "a**", "a{2,1}", "(?=.*\\d)", "[a+]+", "{", "a{,2}"] {
            assert!(is_accepted(pattern), "{pattern}");
        }
        assert!(is_accepted(&"a*".repeat(25)));
    }
}
