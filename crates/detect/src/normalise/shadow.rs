//! Shadow: the normalised copy of a text, as a reader sees it.
//!
//! In: a text. Out: its shadow, which detectors match, with a map back to the bytes of the text.
//! Invisible characters are dropped. Compatibility forms (full-width, mathematical letters) and
//! accents are folded. Digits of other scripts, dashes, quotes, spaces and tag characters become
//! ASCII. Cyrillic and Greek letters that look Latin become Latin only inside words with Latin
//! letters. Letters beyond ASCII become lower case. Character references ([`escaped`]) are decoded.
//! Linear, with one allocation each for text and map.

use std::sync::{LazyLock, OnceLock};

use icu_normalizer::DecomposingNormalizer;

use super::escaped;
use crate::letters::is_word_char;

/// Normalised text with its map.
#[derive(Default)]
pub(crate) struct Shadow {
    /// Text that detectors match.
    pub(crate) text: String,
    /// Pairs `(offset in the shadow, offset in the text)` at each change of their distance.
    map: Vec<(u32, u32)>,
}

impl Shadow {
    /// Returns the shadow of a text.
    pub(crate) fn of(text: &str) -> Self {
        let mut shadow = Self { text: String::with_capacity(text.len()), map: vec![(0, 0)] };
        let mixed = mixed_words(text);
        let mut mixed = mixed.iter().copied().peekable();
        let nfkd = DecomposingNormalizer::new_nfkd();
        let mut at = 0;
        let mut hidden_to = usize::MAX;
        while at < text.len() {
            while mixed.next_if(|&(_, end)| end <= at).is_some() {}
            let to_mixed = mixed.peek().map_or(text.len(), |&(start, _)| start).saturating_sub(at);
            // Unchanged characters are copied in runs without map entries, since the distance
            // between text and shadow is constant there. So the map grows only with folded
            // characters.
            let (same, next) = same_from(&text[at..], to_mixed);
            shadow.text.push_str(&text[at..at + same]);
            at += same;
            let Some(mut c) = next else { break };
            let mut length = c.len_utf8();
            if c.is_ascii() {
                let Some((written, bytes)) = escaped::read(&text[at..]) else {
                    shadow.text.push(c);
                    at += 1;
                    continue;
                };
                (c, length) = (written, bytes);
            }
            while mixed.next_if(|&(_, end)| end <= at).is_some() {}
            let in_mixed = mixed.peek().is_some_and(|&(start, _)| start <= at);
            // Hidden text in tags is a separate word, so a space follows it.
            if is_tag(c) {
                hidden_to = at + length;
            }
            if c.is_ascii() {
                shadow.text.push(c);
            } else {
                shadow.push(c, in_mixed, &nfkd);
            }
            at += length;
            let ends_hidden = hidden_to == at && !text[at..].starts_with(is_tag);
            if ends_hidden && text[at..].starts_with(is_word_char) {
                shadow.text.push(' ');
            }
            shadow.map_to(at);
        }
        shadow
    }

    /// Decomposes a Hangul syllable as the normal form does, arithmetically.
    fn push_hangul(&mut self, syllable: u32) {
        let parts = [0x1100 + syllable / 588, 0x1161 + syllable % 588 / 28, 0x11a7 + syllable % 28];
        let last = if syllable.is_multiple_of(28) { 2 } else { 3 };
        self.text.extend(parts[..last].iter().filter_map(|&part| char::from_u32(part)));
    }

    /// Maps the end of the shadow to `at`, unless the last entry implies it.
    fn map_to(&mut self, at: usize) {
        let here = self.text.len();
        if self
            .map
            .last()
            .is_none_or(|&(shadow, text)| here - shadow as usize != at - text as usize)
        {
            self.map.push((here as u32, at as u32));
        }
    }

    /// Returns the offset in the text of an offset in the shadow.
    pub(crate) fn place(&self, at: usize) -> usize {
        // Findings are few and texts long: a search per finding costs less than a map entry per
        // byte.
        let index = self.map.partition_point(|&(shadow, _)| shadow as usize <= at);
        let (shadow, text) = self.map[index.saturating_sub(1)];
        text as usize + (at - shadow as usize)
    }

    fn push(
        &mut self,
        c: char,
        in_mixed: bool,
        nfkd: &icu_normalizer::DecomposingNormalizerBorrowed<'_>,
    ) {
        // Look-alikes are folded only in words of mixed scripts: `сору` alone is a Russian word,
        // and folding it would find English orders in Russian prose. All look-alikes precede the
        // first Hebrew letter, so that one comparison excludes all later scripts.
        if (!in_mixed || c >= '\u{590}') && is_own_shadow(c) {
            self.text.push(c);
        } else {
            self.push_folded(c, in_mixed, nfkd);
        }
    }

    fn push_folded(
        &mut self,
        c: char,
        in_mixed: bool,
        nfkd: &icu_normalizer::DecomposingNormalizerBorrowed<'_>,
    ) {
        if let Some(plain) = plain(c) {
            self.text.push_str(plain);
            return;
        }
        if let '\u{c0}'..='\u{17f}' = c
            && let Some(base) = LATIN[c as usize - 0xc0]
        {
            self.text.push(base);
            return;
        }
        if let '\u{ac00}'..='\u{d7a3}' = c {
            self.push_hangul(u32::from(c) - 0xac00);
            return;
        }
        if is_invisible(c) {
            return;
        }
        if is_tag(c) {
            self.text.extend(char::from_u32(u32::from(c) - 0xe_0000));
            return;
        }
        if let 'a'..='z' = look_alike(c)
            && in_mixed
        {
            self.text.push(look_alike(c));
            return;
        }
        for c in nfkd.normalize_iter(std::iter::once(c)) {
            match c {
                '\u{300}'..='\u{36f}' => {}
                _ if c.is_ascii() => self.text.push(c),
                _ => match (digit(c), plain(c)) {
                    (Some(digit), _) => self.text.push(digit),
                    (None, Some(plain)) => self.text.push_str(plain),
                    (None, None) => self.text.extend(c.to_lowercase()),
                },
            }
        }
    }
}

/// Bytes compared at once.
const CHUNK: usize = 16;

/// Returns the length of the prefix that is its own shadow, and the next character. From
/// `to_mixed`, the start of a mixed-script word, only ASCII counts.
fn same_from(text: &str, to_mixed: usize) -> (usize, Option<char>) {
    let is_plain = |b: u8| b < 0x80 && b != b'&' && b != b'\\';
    let mut at = 0;
    loop {
        // Most is ASCII, and testing a byte is faster than decoding a character; bytes of a chunk
        // are tested at once.
        let (chunks, _) = text.as_bytes()[at..].as_chunks::<CHUNK>();
        let is_all_plain =
            |chunk: &&[u8; CHUNK]| chunk.iter().fold(true, |all, &byte| all & is_plain(byte));
        at += CHUNK * chunks.iter().take_while(is_all_plain).count();
        at += text.as_bytes()[at..].iter().position(|&b| !is_plain(b)).unwrap_or(text.len() - at);
        match text[at..].chars().next() {
            Some(c) if !c.is_ascii() && at < to_mixed && is_own_shadow(c) => at += c.len_utf8(),
            next => return (at, next),
        }
    }
}

/// Number of characters whose pages [`is_own_shadow`] caches.
const PAGED: usize = 0x2_0000;
/// Characters of a page.
const PAGE: usize = 0x100;

/// Returns true if a character outside mixed-script words is its own shadow. Most are, and asking
/// the normal form each time is slow. So the answers of a page are computed at its first use.
fn is_own_shadow(c: char) -> bool {
    static PAGES: [OnceLock<[u64; PAGE / 64]>; PAGED / PAGE] =
        [const { OnceLock::new() }; PAGED / PAGE];
    let code = c as usize;
    let Some(page) = PAGES.get(code / PAGE) else { return false };
    let page = page.get_or_init(|| {
        let nfkd = DecomposingNormalizer::new_nfkd();
        let mut bits = [0; PAGE / 64];
        let mut shadow = Shadow::default();
        let codes = (code / PAGE * PAGE) as u32..;
        for (index, c) in codes.take(PAGE).enumerate() {
            let Some(c) = char::from_u32(c) else { continue };
            shadow.text.clear();
            shadow.push_folded(c, false, &nfkd);
            let same = shadow.text.chars().eq([c]);
            bits[index / 64] |= u64::from(same) << (index % 64);
        }
        bits
    });
    page[code % PAGE / 64] >> (code % 64) & 1 == 1
}

/// ASCII letters of U+00C0 to U+017F without their accents.
static LATIN: LazyLock<[Option<char>; 0xc0]> = LazyLock::new(|| {
    let nfkd = DecomposingNormalizer::new_nfkd();
    std::array::from_fn(|index| {
        let c = char::from_u32(0xc0 + index as u32)?;
        let mut rest = nfkd
            .normalize_iter(std::iter::once(c))
            .filter(|c| !('\u{300}'..='\u{36f}').contains(c));
        let base = rest.next().filter(char::is_ascii)?;
        rest.next().is_none().then_some(base)
    })
});

/// Drops accents and folds forms in a pattern, as [`Shadow::of`] does in a text.
pub(crate) fn fold_pattern(pattern: &str) -> String {
    if pattern.is_ascii() { pattern.to_owned() } else { Shadow::of(pattern).text }
}

fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' => "-",
        '\u{2018}'..='\u{201b}' | '\u{2bc}' | '\u{b4}' | '\u{2032}' => "'",
        '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{2033}' => "\"",
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            " "
        }
        '\u{2028}' | '\u{2029}' | '\u{85}' => "\n",
        '\u{2026}' => "...",
        '\u{2024}' | '\u{3002}' => ".",
        'ß' => "ss",
        'æ' | 'Æ' => "ae",
        'œ' | 'Œ' => "oe",
        'ø' | 'Ø' => "o",
        'ł' | 'Ł' => "l",
        'đ' | 'Đ' => "d",
        'ı' => "i",
        _ => return None,
    })
}

/// Returns true for tag characters that encode ASCII.
fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0020}'..='\u{e007e}')
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e001f}' | '\u{e007f}' | '\u{e0100}'..='\u{e01ef}'
    )
}

/// Returns the value of decimal digits outside ASCII that compatibility forms do not cover.
fn digit(c: char) -> Option<char> {
    const ZEROS: [u32; 12] =
        [0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xe50, 0x17e0];
    let code = u32::from(c);
    let zero = ZEROS.into_iter().find(|zero| (*zero..zero + 10).contains(&code))?;
    char::from_digit(code - zero, 10)
}

/// Returns the Latin look-alike of a Cyrillic or Greek letter, or the letter itself.
fn look_alike(c: char) -> char {
    match c {
        'а' | 'А' | 'α' | 'Α' => 'a',
        'В' | 'Β' => 'b',
        'с' | 'С' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'Е' | 'ё' | 'Ε' | 'ε' => 'e',
        'ɡ' => 'g',
        'һ' | 'Н' | 'Η' => 'h',
        'і' | 'І' | 'ї' | 'ι' | 'Ι' => 'i',
        'ј' | 'Ј' => 'j',
        'к' | 'К' | 'κ' | 'Κ' => 'k',
        'ӏ' | 'Ӏ' => 'l',
        'м' | 'М' | 'Μ' => 'm',
        'п' | 'Ν' | 'η' => 'n',
        'о' | 'О' | 'ο' | 'Ο' | 'օ' => 'o',
        'р' | 'Р' | 'ρ' | 'Ρ' => 'p',
        'ԛ' => 'q',
        'г' => 'r',
        'ѕ' | 'Ѕ' => 's',
        'т' | 'Т' | 'τ' | 'Τ' => 't',
        'υ' => 'u',
        'ѵ' | 'ν' => 'v',
        'ԝ' | 'ш' => 'w',
        'х' | 'Х' | 'χ' | 'Χ' => 'x',
        'у' | 'У' | 'γ' | 'Υ' => 'y',
        'Ζ' => 'z',
        _ => c,
    }
}

/// Returns words that mix Latin letters with look-alikes, as byte ranges in order.
fn mixed_words(text: &str) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    // The first bytes of look-alikes are compared many at once, without decoding.
    let may_be = |any: bool, byte: &u8| any | matches!(byte, 0xc9..=0xd6);
    if !text.as_bytes().iter().fold(false, may_be)
        || !text.chars().any(|c| matches!(c, '\u{250}'..='\u{58f}'))
    {
        return words;
    }
    let mut at = 0;
    for word in text.split(|c: char| !(is_word_char(c) || is_invisible(c))) {
        if !word.is_ascii() && word.bytes().any(|b| b.is_ascii_alphabetic()) {
            words.push((at, at + word.len()));
        }
        at += word.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shadow: &str) {
        assert_eq!(Shadow::of(text).text, shadow);
    }

    #[test]
    fn shadows_show_what_a_reader_sees() {
        check("ｉｇｎｏｒｅ １２３", "ignore 123");
        check("ignоre i\u{200b}gnore", "ignore ignore");
        check("123–45–6789", "123-45-6789");
        check("précédentes", "precedentes");
        check("٠١٢", "012");
        check("𝐢𝐠𝐧𝐨𝐫𝐞", "ignore");
        check("\u{e0049}\u{e0067}", "Ig");
        check("\u{e0049}\u{e0067}x y", "Ig x y");
        check("&#73;gn&shy;ore&nbsp;\\u0430\\u043b &lt;b&gt;\\n", "Ignore ал &lt;b&gt;\\n");
        check("携帯は090の番号", "携帯は090の番号");
        check("ПРИВЕТ", "привет");
        check("Éĳ한국 ďÅ", "Eij\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8} dA");
    }

    #[test]
    fn places_lead_back_to_the_text() {
        let text = "é\u{200b}x１2";
        let shadow = Shadow::of(text);
        assert_eq!(shadow.text, "ex12");
        assert_eq!(shadow.place(1), text.find('x').unwrap_or(0));
        assert_eq!(shadow.place(3), text.len() - 1);
        assert_eq!(shadow.place(4), text.len());
    }
}
