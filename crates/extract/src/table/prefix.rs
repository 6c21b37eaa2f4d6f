//! Prefixes of attribute keys, such as `llm.output_messages.`: the keys behind them hold indices.

/// Compiled prefixes.
#[derive(Debug, Default)]
pub(in super::super) struct Prefixes {
    prefixes: Vec<Prefix>,
}

#[derive(Debug, PartialEq, Eq)]
struct Prefix {
    text: Box<[u8]>,
    tools_only: bool,
}

impl Prefixes {
    /// Most prefixes in a table: one bit of a word each.
    pub(super) const LIMIT: usize = 64;

    /// Numbers a prefix, or finds it if it is there.
    pub(super) fn intern(&mut self, text: &str, tools_only: bool) -> u16 {
        let prefix = Prefix { text: text.as_bytes().into(), tools_only };
        if let Some(at) = self.prefixes.iter().position(|known| *known == prefix) {
            return at as u16;
        }
        self.prefixes.push(prefix);
        (self.prefixes.len() - 1) as u16
    }

    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    pub(super) fn text(&self, number: u16) -> &[u8] {
        self.prefixes.get(usize::from(number)).map_or(&[], |prefix| &prefix.text)
    }

    /// The prefixes that the key has, a bit each.
    pub(in super::super) fn of(&self, key: &[u8]) -> u64 {
        let hits = self.prefixes.iter().enumerate();
        hits.filter(|(_, prefix)| key.starts_with(&prefix.text))
            .fold(0, |all, (at, _)| all | 1 << at)
    }

    /// Those of the prefixes behind which only messages about tools are kept.
    pub(in super::super) fn tools_only(&self) -> u64 {
        let prefixes = self.prefixes.iter().enumerate();
        prefixes.filter(|(_, prefix)| prefix.tools_only).fold(0, |all, (at, _)| all | 1 << at)
    }

    /// What follows the prefix in a key that has it.
    pub(in super::super) fn tail<'a>(&self, number: u16, key: &'a [u8]) -> &'a [u8] {
        key.get(self.text(number).len()..).unwrap_or(&[])
    }
}
