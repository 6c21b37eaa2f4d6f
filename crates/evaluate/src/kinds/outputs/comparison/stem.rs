//! Stems of English words by Porter's algorithm, with the extensions of NLTK's default mode.
//!
//! The input is a word of lower-case ASCII letters and digits: `connections` and `connected` become
//! `connect`. In each step the first rule with a matching suffix decides, even if its condition
//! fails. Every step is linear in the word.

/// Irregular words with their stems.
const IRREGULAR: &[(&str, &str)] = &[
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("inning", "inning"),
    ("innings", "inning"),
    ("outing", "outing"),
    ("outings", "outing"),
    ("canning", "canning"),
    ("cannings", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

/// Suffix, its replacement, and the condition on the part before it.
type SuffixRule = (&'static str, &'static str, fn(&str) -> bool);

const PLURALS: &[SuffixRule] =
    &[("sses", "ss", always), ("ies", "i", always), ("ss", "ss", always), ("s", "", always)];

const DOUBLE_SUFFIXES: &[SuffixRule] = &[
    ("ational", "ate", is_measured),
    ("tional", "tion", is_measured),
    ("enci", "ence", is_measured),
    ("anci", "ance", is_measured),
    ("izer", "ize", is_measured),
    ("bli", "ble", is_measured),
    ("alli", "al", is_measured),
    ("entli", "ent", is_measured),
    ("eli", "e", is_measured),
    ("ousli", "ous", is_measured),
    ("ization", "ize", is_measured),
    ("ation", "ate", is_measured),
    ("ator", "ate", is_measured),
    ("alism", "al", is_measured),
    ("iveness", "ive", is_measured),
    ("fulness", "ful", is_measured),
    ("ousness", "ous", is_measured),
    ("aliti", "al", is_measured),
    ("iviti", "ive", is_measured),
    ("biliti", "ble", is_measured),
    ("fulli", "ful", is_measured),
    // The `l` belongs to the stem, so that a vowel before it counts in the measure.
    ("logi", "log", has_vowel),
];

const ADJECTIVES: &[SuffixRule] = &[
    ("icate", "ic", is_measured),
    ("ative", "", is_measured),
    ("alize", "al", is_measured),
    ("iciti", "ic", is_measured),
    ("ical", "ic", is_measured),
    ("ful", "", is_measured),
    ("ness", "", is_measured),
];

const ENDINGS: &[SuffixRule] = &[
    ("al", "", is_long),
    ("ance", "", is_long),
    ("ence", "", is_long),
    ("er", "", is_long),
    ("ic", "", is_long),
    ("able", "", is_long),
    ("ible", "", is_long),
    ("ant", "", is_long),
    ("ement", "", is_long),
    ("ment", "", is_long),
    ("ent", "", is_long),
    ("ion", "", |stem| is_long(stem) && stem.ends_with(['s', 't'])),
    ("ou", "", is_long),
    ("ism", "", is_long),
    ("ate", "", is_long),
    ("iti", "", is_long),
    ("ous", "", is_long),
    ("ive", "", is_long),
    ("ize", "", is_long),
];

/// Returns the stem of a word of lower-case ASCII letters and digits.
pub(super) fn stem(word: &str) -> String {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(known, _)| *known == word) {
        return (*stem).to_owned();
    }
    let mut word = word.to_owned();
    if word.len() == 4 && word.ends_with("ies") {
        word.pop();
    } else {
        apply(&mut word, PLURALS);
    }
    strip_past(&mut word);
    apply(&mut word, &[("y", "i", |stem| stem.len() > 1 && ends_in_consonant(stem))]);
    // `radicalli` loses two suffixes.
    if let Some(stem) = word.strip_suffix("alli").filter(|stem| is_measured(stem)) {
        word.truncate(stem.len() + 2);
    }
    [DOUBLE_SUFFIXES, ADJECTIVES, ENDINGS].into_iter().for_each(|rules| apply(&mut word, rules));
    apply(&mut word, &[("e", "", |stem| is_long(stem) || (is_measured(stem) && !ends_cvc(stem)))]);
    if word.ends_with("ll") && is_long(&word[..word.len() - 1]) {
        word.pop();
    }
    word
}

fn apply(word: &mut String, rules: &[SuffixRule]) {
    let found = rules.iter().find_map(|(suffix, with, holds)| {
        word.strip_suffix(suffix).map(|stem| (stem.len(), *with, holds(stem)))
    });
    if let Some((length, with, true)) = found {
        word.truncate(length);
        word.push_str(with);
    }
}

/// Strips the endings of past tense and participles.
fn strip_past(word: &mut String) {
    if let Some(stem) = word.strip_suffix("ied") {
        let kept = if word.len() == 4 { "ie" } else { "i" };
        *word = format!("{stem}{kept}");
        return;
    }
    if let Some(stem) = word.strip_suffix("eed") {
        if is_measured(stem) {
            word.pop();
        }
        return;
    }
    let found = ["ed", "ing"].iter().filter_map(|suffix| word.strip_suffix(suffix));
    let Some(length) = found.filter(|stem| has_vowel(stem)).map(str::len).next() else { return };
    word.truncate(length);
    let is_doubled = {
        let bytes = word.as_bytes();
        bytes.len() > 1 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2]
    };
    if ["at", "bl", "iz"].iter().any(|end| word.ends_with(end)) {
        word.push('e');
    } else if is_doubled && ends_in_consonant(word) {
        if !word.ends_with(['l', 's', 'z']) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_cvc(word) {
        word.push('e');
    }
}

fn always(_: &str) -> bool {
    true
}

/// Returns for each letter true if it is a consonant: a `y` is one unless it follows one.
fn consonants(word: &str) -> impl Iterator<Item = bool> {
    let mut before = false;
    word.bytes().map(move |byte| {
        before = match byte {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => !before,
            _ => true,
        };
        before
    })
}

/// Counts runs of vowels followed by a consonant.
fn measure(stem: &str) -> usize {
    consonants(stem).zip(consonants(stem).skip(1)).filter(|(one, next)| !one && *next).count()
}

fn is_measured(stem: &str) -> bool {
    measure(stem) > 0
}

fn is_long(stem: &str) -> bool {
    measure(stem) > 1
}

fn has_vowel(stem: &str) -> bool {
    consonants(stem).any(|is_consonant| !is_consonant)
}

fn ends_in_consonant(word: &str) -> bool {
    consonants(word).last().unwrap_or(false)
}

/// Returns true if a word ends with consonant, vowel, and a consonant other than `w`, `x` and `y`;
/// for two letters, with vowel and consonant.
fn ends_cvc(word: &str) -> bool {
    let start = word.len().saturating_sub(3);
    let end: Vec<bool> = consonants(word).skip(start).collect();
    match end[..] {
        [false, true] => true,
        [true, false, true] => !word.ends_with(['w', 'x', 'y']),
        _ => false,
    }
}
