//! A text for each alternative of an expression, for the test that each of them fires alone.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Most texts of one expression.
const TEXTS_MAX: usize = 400;

/// Short texts that an expression matches, at least one for each alternative where there are not
/// more than [`TEXTS_MAX`].
pub(super) fn texts(hir: &Hir) -> Vec<String> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => vec![String::new()],
        HirKind::Literal(literal) => vec![String::from_utf8_lossy(&literal.0).into_owned()],
        HirKind::Class(class) => vec![of_class(class).to_string()],
        HirKind::Capture(capture) => texts(&capture.sub),
        HirKind::Repetition(repetition) => {
            let times = repetition.min as usize;
            texts(&repetition.sub).into_iter().map(|text| text.repeat(times)).collect()
        }
        HirKind::Alternation(parts) => parts.iter().flat_map(texts).take(TEXTS_MAX).collect(),
        HirKind::Concat(parts) => {
            let all: Vec<Vec<String>> = parts.iter().map(texts).collect();
            // Each alternative of one part, beside the first of the others.
            let base = |skip: usize, text: &str| -> String {
                let part = |(index, texts): (usize, &Vec<String>)| {
                    if index == skip { text.to_owned() } else { texts[0].clone() }
                };
                all.iter().enumerate().map(part).collect()
            };
            let mut found: Vec<String> = Vec::new();
            for (index, texts) in all.iter().enumerate() {
                found.extend(texts.iter().map(|text| base(index, text)));
            }
            found.dedup();
            found.truncate(TEXTS_MAX);
            found
        }
    }
}

/// A letter or digit of a class where it has one.
fn of_class(class: &Class) -> char {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.iter().map(|r| (r.start(), r.end())).collect(),
        Class::Bytes(class) => {
            class.iter().map(|r| (char::from(r.start()), char::from(r.end()))).collect()
        }
    };
    let has = |c: &char| ranges.iter().any(|(start, end)| (start..=end).contains(&c));
    let wanted = ['a', '7', ' ', 'Q', '-', ':', '\n'];
    wanted.into_iter().find(has).or(ranges.first().map(|range| range.0)).unwrap_or('a')
}
