use std::sync::LazyLock;

use proptest::{prop_assert_eq, proptest};

use super::*;

fn found(sieve: &Sieve, text: &[u8], top: u8) -> u64 {
    let mut hits = Hits::default();
    sieve.find(text, 0..text.len(), top, &mut hits);
    for (index, at) in &hits.places {
        let anchor = &sieve.anchors[usize::from(*index)].bytes;
        assert!(text[*at as usize..][..anchor.len()].eq_ignore_ascii_case(anchor));
    }
    hits.set[0]
}

#[test]
fn finds_anchors_at_every_place_and_in_any_case() {
    let anchors = ["{{", "sk-", "ignor", "^todo", "忽略", "forget", "^ai ", "from now on", "^dan"]
        .map(str::to_owned);
    let sieve = Sieve::new(&anchors, false, |_| true);
    let plain = Sieve::new(&anchors, true, |_| true);
    for (index, anchor) in anchors.iter().enumerate() {
        let anchor = anchor.trim_start_matches('^');
        for before in 0..20 {
            for after in 0..20 {
                let a = "(".repeat(before);
                let z = ".".repeat(after);
                let text = format!("{a}{}{z}", anchor.to_uppercase());
                assert_eq!(found(&sieve, text.as_bytes(), u8::MAX), 1 << index, "{text:?}");
                if text.is_ascii() {
                    assert_eq!(found(&plain, text.as_bytes(), u8::MAX), 1 << index, "{text:?}");
                }
            }
        }
    }
    let other = Sieve::new(&anchors, true, |index| index == 1);
    assert_eq!(found(&other, b"ignore sk-", u8::MAX), 2);
}

#[test]
fn a_word_start_is_asked_for_where_written() {
    let sieve = Sieve::new(&["^todo".to_owned(), "^ai ".to_owned()], false, |_| true);
    assert_eq!(found(&sieve, b"metodo aai ", u8::MAX), 0);
    assert_eq!(found(&sieve, b"me todo", u8::MAX), 1);
    assert_eq!(found(&sieve, "é, ai ".as_bytes(), u8::MAX), 2);
    assert_eq!(found(&sieve, "ai x".as_bytes(), u8::MAX), 2);
}

const ANCHORS: [&str; 14] = [
    "ab", "{{", "<_", "sk-", "a.b", "^dc", "^ab ", "abcd", "d a b", "^c d a", "忽略", "ignore p",
    "ignore previous", "e prev",
];

/// Sieves for any text, and for ASCII texts with few short anchors and with many.
static SIEVES: LazyLock<[Sieve; 3]> = LazyLock::new(|| {
    let others = (0..=SHORT_FEW).map(|number| format!("~{number:03}"));
    let anchors: Vec<String> = ANCHORS.map(str::to_owned).into_iter().chain(others).collect();
    [(false, ANCHORS.len()), (true, ANCHORS.len()), (true, anchors.len())]
        .map(|(ascii, count)| Sieve::new(&anchors[..count], ascii, |_| true))
});

/// Returns true if the anchor occurs, by a plain search.
fn occurs(text: &[u8], anchor: &str) -> bool {
    let (word_start, anchor) = match anchor.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, anchor),
    };
    text.windows(anchor.len()).enumerate().any(|(at, window)| {
        window.eq_ignore_ascii_case(anchor.as_bytes())
            && !(word_start && at > 0 && text[at - 1].is_ascii_alphanumeric())
    })
}

proptest! {
    #[test]
    fn finds_what_a_plain_search_finds(
        parts in proptest::collection::vec("[a-d ^{<_.-]{1,3}|ignore previous|SK-|忽略|é", 0..90),
        cut in 0..9usize,
    ) {
        let text = parts.concat();
        let text = &text.as_bytes()[..text.len().saturating_sub(cut)];
        let top = text.iter().copied().max().unwrap_or_default();
        let sieves = &SIEVES[..if text.is_ascii() { 3 } else { 1 }];
        for sieve in sieves {
            let seen = found(sieve, text, top);
            for (index, anchor) in ANCHORS.iter().enumerate() {
                prop_assert_eq!(seen >> index & 1 == 1, occurs(text, anchor), "{}", anchor);
            }
        }
    }
}
