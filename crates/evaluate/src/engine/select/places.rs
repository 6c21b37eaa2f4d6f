//! Places of whole words in an expression.

/// Returns true for a sign that a name is made of.
pub fn is_part_of_name(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

/// Returns the first place of some words that neither begin nor end within a name.
pub fn place_of_words(text: &str, words: &str) -> Option<usize> {
    let begins = words.starts_with(is_part_of_name);
    let ends = words.ends_with(is_part_of_name);
    let is_whole = |at: &usize| {
        let is_within = begins && text[..*at].ends_with(is_part_of_name);
        let goes_on = ends && text[at + words.len()..].starts_with(is_part_of_name);
        !is_within && !goes_on
    };
    text.match_indices(words).map(|(at, _)| at).find(is_whole)
}

#[cfg(test)]
mod tests {
    use super::place_of_words;

    #[test]
    fn words_are_found_whole() {
        let check = |words: &str, expected: Option<usize>| {
            assert_eq!(
                place_of_words("a_tool == shops && tool in shop", words),
                expected,
                "{words}"
            );
        };
        check("tool", Some(19));
        check("tool in ", Some(19));
        check("== shop", None);
        check("== shops", Some(7));
        check(" in shop", Some(23));
    }
}
