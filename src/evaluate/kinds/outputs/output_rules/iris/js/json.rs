//! `JSON.parse` as a question: is this text JSON?
//!
//! Any depth (a stack of one bit per level on the heap), any exponent, lone surrogates in escapes;
//! white space is the four characters of the grammar. Linear in the text.

/// Whether `JSON.parse` would accept the text.
pub(in crate::evaluate::kinds::outputs::output_rules) fn is_json(text: &str) -> bool {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
    reader.document().is_some() && reader.at == reader.bytes.len()
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    /// `true` on the stack stands for an object.
    fn document(&mut self) -> Option<()> {
        let mut open: Vec<bool> = Vec::new();
        loop {
            self.space();
            match self.peek()? {
                b'{' => {
                    self.at += 1;
                    self.space();
                    if self.take(b'}').is_none() {
                        self.key()?;
                        open.push(true);
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    self.space();
                    if self.take(b']').is_none() {
                        open.push(false);
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            if self.close(&mut open)? {
                return Some(());
            }
        }
    }

    /// After a value: closes what ends here; `true` when the document is complete.
    fn close(&mut self, open: &mut Vec<bool>) -> Option<bool> {
        loop {
            self.space();
            let Some(&object) = open.last() else { return Some(true) };
            match (self.peek()?, object) {
                (b',', true) => {
                    self.at += 1;
                    self.space();
                    self.key()?;
                    return Some(false);
                }
                (b',', false) => {
                    self.at += 1;
                    return Some(false);
                }
                (b'}', true) | (b']', false) => {
                    self.at += 1;
                    open.pop();
                }
                _ => return None,
            }
        }
    }

    fn key(&mut self) -> Option<()> {
        self.string()?;
        self.space();
        self.take(b':')
    }

    fn scalar(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'"' => return Some(()),
                b'\\' => {
                    let escape = self.peek()?;
                    self.at += 1;
                    match escape {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        b'u' => {
                            let digits = self.bytes.get(self.at..self.at + 4)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return None;
                            }
                            self.at += 4;
                        }
                        _ => return None,
                    }
                }
                0..0x20 => return None,
                _ => {}
            }
        }
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.take(b'-');
        if self.take(b'0').is_none() {
            self.digits()?;
        }
        if self.take(b'.').is_some() {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::is_json;
    use crate::value::json::hard_texts;

    #[test]
    fn hard_texts_read_as_ever() {
        insta::assert_snapshot!(hard_texts::table(|text| is_json(text).to_string()));
    }

    #[test]
    fn accepts_what_json_parse_accepts() {
        for text in ["1e400", "\"\\ud800\"", "{\"a\":1,\"a\":[]}", " \n\t\r{} ", "-0.5E+1", "null"]
        {
            assert!(is_json(text), "{text}");
        }
        assert!(is_json(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))));
    }

    #[test]
    fn refuses_what_json_parse_refuses() {
        for text in [
            "",
            "\u{a0}7",
            "\u{feff}[]",
            "[1,]",
            "{'a':1}",
            "NaN",
            "01",
            "1.",
            "{\"a\"}",
            "[",
            "\"\n\"",
        ] {
            assert!(!is_json(text), "{text:?}");
        }
    }
}
