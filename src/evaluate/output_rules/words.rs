//! Words, sentences and length of texts in any script.
//!
//! In goes a text, out come its content words as stems, its units (sentences, list items, lines of
//! a table) and its length. Scripts without spaces give pairs of characters in place of words, so
//! that their texts are judged and not waved through. All linear.

use std::sync::LazyLock;

use hashbrown::HashSet;

/// Letters of a word that count; longer words are equal if these are, which evens out endings.
const STEM: usize = 4;

/// Words that say nothing of the topic, in the languages most written.
const STOP: &str = "a about after all also am an and any are as at be been but by can could de del \
    der des did die do does el en es est et for from had has have he her him his how i if im in \
    into is it its itself je la las le les let los me my ne no nor not of on or our out please que \
    qu she should so some than that the their them then there these they this those to too un una \
    und une up us van was we were what when where which who whom whose why will with would you \
    your zu и в во не на что как это по из у за от до для же бы мы вы он она они какая какой какие \
    какое где когда есть wie was wer wo ist sind ein eine das den dem mit von im para por con como \
    qual quais uma um os dos das em quoi quel quelle comment pourquoi";

/// Abbreviations whose full stop ends no sentence.
const ABBREVIATIONS: &str = "e.g i.e dr mr mrs ms prof st vs etc approx no fig al inc ltd jr sr cf \
    z.b d.h bzw ca nr p.ej sra sa co";

fn is_stop(word: &str) -> bool {
    static SET: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP.split_ascii_whitespace().collect());
    SET.contains(word)
}

/// Letters of scripts that are written without spaces, and Hangul, whose endings hide words.
fn is_unspaced(c: char) -> bool {
    matches!(
        c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
            | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
    )
}

fn runs(lower: &str) -> impl Iterator<Item = &str> {
    lower.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty())
}

/// Calls `take` with each word's stem: content words, numbers, pairs of unspaced characters.
pub(super) fn stems<'t>(lower: &'t str, mut take: impl FnMut(&'t str)) {
    for run in runs(lower) {
        let (mut start, mut paired) = (0, false);
        for (at, c) in run.char_indices() {
            let was_paired = std::mem::take(&mut paired);
            if is_unspaced(c) {
                stem(&run[start..at], &mut take);
                let end = at + c.len_utf8();
                match run[end..].chars().next().filter(|&next| is_unspaced(next)) {
                    Some(next) => {
                        take(&run[at..end + next.len_utf8()]);
                        paired = true;
                    }
                    None if was_paired => {}
                    None => take(&run[at..end]),
                }
                start = end;
            }
        }
        stem(&run[start..], &mut take);
    }
}

fn stem<'t>(word: &'t str, take: &mut impl FnMut(&'t str)) {
    if word.is_empty() || is_stop(word) {
        return;
    }
    if word.bytes().any(|b| b.is_ascii_digit()) {
        return take(word);
    }
    let mut short = word;
    for ending in ["ing", "ed", "es", "s"] {
        if let Some(rest) = short.strip_suffix(ending)
            && rest.len() >= 3
        {
            short = rest;
            break;
        }
    }
    let end = short.char_indices().nth(STEM).map_or(short.len(), |(at, _)| at);
    if short.chars().nth(1).is_some() {
        take(&short[..end]);
    }
}

/// The distinct stems of a text that is in lower case.
pub(super) fn stem_set(lower: &str) -> HashSet<&str> {
    let mut set = HashSet::new();
    stems(lower, |stem| {
        set.insert(stem);
    });
    set
}

/// Whether a text denies something.
pub(super) fn is_negated(lower: &str) -> bool {
    lower.contains("n't")
        || lower.contains("n’t")
        || lower.contains("ません")
        || lower.contains("ない")
        || lower.contains(['不', '没'])
        || runs(lower).any(|word| {
            matches!(
                word,
                "not"
                    | "no"
                    | "never"
                    | "cannot"
                    | "nicht"
                    | "kein"
                    | "keine"
                    | "pas"
                    | "nunca"
                    | "jamais"
                    | "não"
                    | "non"
                    | "не"
                    | "нет"
                    | "niet"
            )
        })
}

/// Characters that carry something: a row of punctuation counts once, a wide character twice.
pub(super) fn length(text: &str) -> usize {
    let mut last_plain = true;
    let mut length = 0;
    for c in text.trim().chars() {
        let plain = c.is_alphanumeric();
        if plain || last_plain {
            length += if is_unspaced(c) { 2 } else { usize::from(!is_blank(c)) };
            length += usize::from(c == ' ');
        }
        last_plain = plain;
    }
    length
}

fn is_blank(c: char) -> bool {
    let zero_width = matches!(
        c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    zero_width || c.is_whitespace() || c.is_control() || matches!(c, '\u{3164}' | '\u{2800}')
}

/// Whether a reader sees nothing.
pub(super) fn is_invisible(text: &str) -> bool {
    text.chars().all(is_blank)
}

/// The sentences, list items and lines of tables.
pub(super) fn units(text: &str) -> Vec<&str> {
    let mut units = Vec::new();
    for line in text.lines() {
        let (mut start, mut at) = (0, 0);
        while at < line.len() {
            let c = line[at..].chars().next().unwrap_or(' ');
            let end = at + c.len_utf8();
            if ends_sentence(line, start, at, c) {
                push_unit(&mut units, &line[start..end]);
                start = end;
            }
            at = end;
        }
        push_unit(&mut units, &line[start..]);
    }
    units
}

fn push_unit<'t>(units: &mut Vec<&'t str>, unit: &'t str) {
    if unit.contains(char::is_alphanumeric) {
        units.push(unit);
    }
}

fn ends_sentence(line: &str, start: usize, at: usize, c: char) -> bool {
    match c {
        '。' | '！' | '？' | '؟' | '۔' | '।' => true,
        '.' | '!' | '?' => {
            let after =
                line[at + 1..].trim_start_matches(['"', '\'', ')', ']', '”', '’', '*', '_']);
            if !(after.is_empty() || after.starts_with(char::is_whitespace)) {
                return false;
            }
            // A list number or an abbreviation is no end; only the last word is looked at.
            let word_start =
                line[start..at].rfind(char::is_whitespace).map_or(start, |i| start + i + 1);
            let word = line[word_start..at].trim_start_matches(|c: char| !c.is_alphanumeric());
            let number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
            let head = number && line[start..word_start].trim().is_empty();
            let short = word.len() <= 6
                && ABBREVIATIONS.split_ascii_whitespace().any(|a| a.eq_ignore_ascii_case(word));
            c != '.' || !(head || (short && !after.trim().is_empty()))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_sentences_items_and_lines() {
        let check = |text: &str, count| assert_eq!(units(text).len(), count, "{text}");
        check("Version 1.2.3 costs $4.99", 1);
        check("e.g. this", 1);
        check("Dr. Smith came. He left.", 2);
        check("パリです。人口は約二百万人です。", 2);
        check("- install\n- restart\n1. check", 3);
        check("Really?! Yes.", 2);
        check("...", 0);
    }

    #[test]
    fn stems_even_out_endings_in_any_script() {
        let set = stem_set("tests failing столица 首都は 5000");
        for stem in ["test", "fail", "стол", "首都", "都は", "5000"] {
            assert!(set.contains(stem), "{stem}: {set:?}");
        }
    }

    #[test]
    fn length_counts_what_says_something() {
        assert_eq!(length(&".".repeat(60)), 1);
        assert_eq!(length("ab cd"), 5);
        assert_eq!(length("首都"), 4);
        assert!(is_invisible("\u{200b}\u{200b}"));
    }
}
