//! Escapes of JavaScript patterns: the grammar after a backslash.

use super::class::{DIGITS, Item, SPACE, WORD, complement};
use super::names::is_property;
use super::{JsRegexError, Writer, invalid};

impl Writer<'_> {
    /// Reads an escape after its backslash.
    pub(crate) fn escape(&mut self, in_class: bool) -> Result<Item, JsRegexError> {
        let Some(c) = self.peek() else { return Err(invalid("\\ at end of pattern")) };
        self.at += 1;
        let unit = |value: u32| Ok(Item::Unit(value));
        match c {
            'd' => Ok(Item::Set(DIGITS.to_vec())),
            'D' => Ok(Item::Set(complement(DIGITS, self.top()))),
            'w' => Ok(Item::Set(WORD.to_vec())),
            'W' => {
                let mut word = WORD.to_vec();
                if self.flags.folds() {
                    word.extend([(0x17f, 0x17f), (0x212a, 0x212a)]);
                }
                Ok(Item::Set(complement(&word, self.top())))
            }
            's' => Ok(Item::Set(SPACE.to_vec())),
            'S' => Ok(Item::Set(complement(SPACE, self.top()))),
            't' => unit(9),
            'n' => unit(10),
            'v' => unit(11),
            'f' => unit(12),
            'r' => unit(13),
            'b' if in_class => unit(8),
            'c' => match self.peek() {
                Some(letter)
                    if letter.is_ascii_alphabetic()
                        || (in_class
                            && !self.flags.unicode
                            && (letter.is_ascii_digit() || letter == '_')) =>
                {
                    self.at += 1;
                    unit(u32::from(letter) % 32)
                }
                _ if self.flags.unicode => Err(invalid("Invalid unicode escape")),
                _ => {
                    self.at -= 1;
                    unit(0x5c)
                }
            },
            'x' => self.hex(2, 'x'),
            'u' => self.unicode_escape(),
            'p' | 'P' if self.flags.unicode => self.property(c),
            'k' if !in_class && (!self.groups.names.is_empty() || self.flags.unicode) => {
                Err(self.groups.reference(&self.units[self.at..]))
            }
            'k' if !self.groups.names.is_empty() => Err(invalid("Invalid escape")),
            '0'..='9' => self.decimal(c, in_class),
            _ if self.flags.unicode && !self.may_escape(c, in_class) => {
                Err(invalid("Invalid escape"))
            }
            _ => unit(self.units[self.at - 1]),
        }
    }

    /// Returns true if `u` or `v` allows a backslash before this literal character.
    fn may_escape(&self, c: char, in_class: bool) -> bool {
        "^$\\.*+?()[]{}|/".contains(c)
            || (in_class && c == '-')
            || (in_class && self.flags.sets && "&!#%,:;<=>@`~".contains(c))
    }

    /// Returns the highest code unit or code point.
    pub(crate) fn top(&self) -> u32 {
        if self.flags.unicode { 0x10_ffff } else { 0xffff }
    }

    fn hex(&mut self, digits: usize, letter: char) -> Result<Item, JsRegexError> {
        let mut value = 0;
        for ahead in 0..digits {
            match self.peek_at(ahead).and_then(|c| c.to_digit(16)) {
                Some(digit) => value = value * 16 + digit,
                None if self.flags.unicode => return Err(invalid("Invalid Unicode escape")),
                None => return Ok(Item::Unit(letter.into())),
            }
        }
        self.at += digits;
        Ok(Item::Unit(value))
    }

    fn unicode_escape(&mut self) -> Result<Item, JsRegexError> {
        if !self.flags.unicode || self.peek() != Some('{') {
            let high = self.hex(4, 'u')?;
            let Item::Unit(high @ 0xd800..=0xdbff) = high else { return Ok(high) };
            if self.flags.unicode && self.looking_at("\\u") {
                let back = self.at;
                self.at += 2;
                if let Ok(Item::Unit(low @ 0xdc00..=0xdfff)) = self.hex(4, 'u') {
                    return Ok(Item::Unit(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)));
                }
                self.at = back;
            }
            return Ok(Item::Unit(high));
        }
        self.at += 1;
        let mut value = 0u32;
        loop {
            let c = self.peek().ok_or_else(|| invalid("Invalid Unicode escape"))?;
            self.at += 1;
            match c.to_digit(16) {
                Some(digit) => value = (value * 16 + digit).min(0x11_0000),
                None if c == '}' && value <= 0x10_ffff => return Ok(Item::Unit(value)),
                None => return Err(invalid("Invalid Unicode escape")),
            }
        }
    }

    fn property(&mut self, c: char) -> Result<Item, JsRegexError> {
        let bad = || invalid("Invalid property name");
        let end = self.units[self.at..].iter().position(|&unit| unit == 0x7d).ok_or_else(bad)?;
        let name: Option<String> =
            self.units[self.at..=self.at + end].iter().map(|&unit| char::from_u32(unit)).collect();
        self.at += end + 1;
        let name = name.ok_or_else(bad)?;
        let inner = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        if !inner.is_some_and(is_property) {
            return Err(bad());
        }
        let hir = regex_syntax::parse(&format!("\\{c}{name}"));
        match hir.map(regex_syntax::hir::Hir::into_kind) {
            Ok(regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class))) => {
                Ok(Item::Set(class.iter().map(|r| (r.start().into(), r.end().into())).collect()))
            }
            _ => Err(bad()),
        }
    }

    fn decimal(&mut self, first: char, in_class: bool) -> Result<Item, JsRegexError> {
        let mut digits = String::from(first);
        while let Some(c @ '0'..='9') = self.peek_at(digits.len() - 1) {
            digits.push(c);
        }
        let value: u32 = digits.parse().unwrap_or(u32::MAX);
        if first == '0' && digits.len() == 1 {
            return Ok(Item::Unit(0));
        }
        if !in_class && first != '0' && value <= self.groups.count {
            return Err(JsRegexError::NotLinear("a back-reference"));
        }
        if self.flags.unicode {
            return Err(invalid("Invalid decimal escape"));
        }
        if first >= '8' {
            return Ok(Item::Unit(first.into()));
        }
        let octal: String = digits.chars().take_while(|&c| c < '8').take(3).collect();
        let length = if first > '3' { octal.len().min(2) } else { octal.len() };
        self.at += length - 1;
        Ok(Item::Unit(u32::from_str_radix(&octal[..length], 8).unwrap_or_default()))
    }
}
