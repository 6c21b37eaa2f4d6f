//! Citations in a text: addresses, DOIs, numbers in brackets, authors with a year.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use hashbrown::HashMap;
use regex::Regex;

use super::context::{ContextReader, NumberContext};

/// Citation in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Citation {
    /// Range in the text, bytes.
    pub(super) place: Range<usize>,
    /// Source that it cites.
    pub(super) source: CitedSource,
}

/// Source cited by a citation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CitedSource {
    /// Address or DOI, normalized by [`address_key`].
    Address(String),
    /// Number without an explaining address in the text.
    Number(u32),
    /// Author and year.
    AuthorYear,
}

/// Patterns of citations, each with a named group. Addresses end at punctuation and non-ASCII
/// signs; numbers start at 1.
const FORMS: &str = concat!(
    r#"(?P<address>(?i:https?)://[^\s<>"'`{}|\\^\[\][\p{P}\p{S}&&[^\x00-\x7f]]]+)"#,
    r#"|(?P<doi>(?-u:\b)10\.[0-9]{4,9}/[^\s<>"'`\[\][\p{P}\p{S}&&[^\x00-\x7f]]]+)"#,
    r"|\[\^?(?P<numbers>[1-9][0-9]{0,2}(?:\s?[,;–-]\s?[1-9][0-9]{0,2}){0,9})\]",
    r"|【(?P<dagger>[0-9]{1,3})[^】]{0,80}】",
    r"|\((?P<author>\p{Lu}[\p{L}'’.-]+",
    r"(?:(?:,|\sand|\s&|\set\sal\.?)?\s\p{Lu}?[\p{L}'’.-]*){0,4},\s",
    r"(?:1[89]|20)[0-9][0-9][a-z]?)\)",
);

static CITATION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(FORMS).ok());

/// Limit on the compared bytes of an address.
const ADDRESS_BYTES_MAX: usize = 2_048;
/// Limit on the numbers in one pair of brackets.
const NUMBERS_MAX: usize = 20;

/// Finds the citations of an answer in order; `None` if there are more than `most`. A line that
/// explains a number by an address gives it to all citations of the number, and is itself a
/// citation only if nothing cites it. A number in code is no citation, nor is an unexplained one
/// directly after a word.
pub(super) fn citations(text: &str, most: usize) -> Option<Vec<Citation>> {
    let mut explained: HashMap<u32, (String, bool)> = HashMap::new();
    let mut found: Vec<FoundCitation> = Vec::new();
    let mut explains: Option<(u32, usize)> = None;
    let mut reader = ContextReader::new(text);
    for capture in CITATION.iter().flat_map(|form| form.captures_iter(text)) {
        // Each explained number has its own entry.
        if found.len() > most + explained.len() {
            return None;
        }
        let Some(whole) = capture.get(0) else { continue };
        let place = whole.range();
        let context = reader.read_to(&place);
        if let Some(source) = address_of(&capture) {
            let number = explains.take().filter(|(_, end)| place.start < *end);
            let explains = number
                .map(|(number, _)| number)
                .filter(|number| explained.try_insert(*number, (source.clone(), false)).is_ok());
            let citation = Citation { place, source: CitedSource::Address(source) };
            found.push(FoundCitation { citation, explains, is_attached: false });
            continue;
        }
        if context == NumberContext::Code {
            continue;
        }
        let is_attached = context == NumberContext::Attached;
        let mut push = |source: CitedSource, is_attached: bool| {
            let citation = Citation { place: place.clone(), source };
            found.push(FoundCitation { citation, explains: None, is_attached });
        };
        let numbers = numbers_of(&capture);
        if numbers.is_empty() {
            push(CitedSource::AuthorYear, false);
        }
        if let ([number], NumberContext::LineStart) = (&*numbers, context) {
            let line = text[place.end..].split('\n').next().unwrap_or_default();
            if holds_address(line) {
                explains = Some((*number, place.end + line.len()));
                continue;
            }
        }
        for number in numbers {
            push(CitedSource::Number(number), is_attached);
        }
    }
    let found = settled(found, explained);
    (found.len() <= most).then_some(found)
}

/// Citation before the whole answer is read.
struct FoundCitation {
    citation: Citation,
    /// Number explained on its line.
    explains: Option<u32>,
    /// True for a number directly after a word.
    is_attached: bool,
}

/// Resolves numbers to their explaining addresses, and drops candidates that are no citations.
fn settled(
    mut found: Vec<FoundCitation>,
    mut explained: HashMap<u32, (String, bool)>,
) -> Vec<Citation> {
    for one in &mut found {
        if let CitedSource::Number(number) = one.citation.source
            && let Some((address, is_cited)) = explained.get_mut(&number)
        {
            *is_cited = true;
            one.is_attached = false;
            one.citation.source = CitedSource::Address(address.clone());
        }
    }
    let is_cited = |number: u32| explained.get(&number).is_some_and(|(_, is_cited)| *is_cited);
    found.retain(|one| !one.is_attached && !one.explains.is_some_and(is_cited));
    found.into_iter().map(|one| one.citation).collect()
}

fn holds_address(line: &str) -> bool {
    let mut captures = CITATION.iter().flat_map(|form| form.captures_iter(line));
    captures.any(|capture| address_of(&capture).is_some())
}

/// Collects the addresses and DOIs of a text, normalized by [`address_key`].
pub(super) fn addresses(text: &str, found: &mut impl FnMut(String)) {
    let unescaped;
    let text = if text.contains("\\/") {
        unescaped = text.replace("\\/", "/");
        &unescaped
    } else {
        text
    };
    let captures = CITATION.iter().flat_map(|form| form.captures_iter(text));
    captures.filter_map(|capture| address_of(&capture)).for_each(found);
}

/// Returns the key without its query string.
pub(super) fn without_query(key: &str) -> &str {
    key.split_once('?').map_or(key, |(page, _)| page)
}

/// Returns the key up to its first non-ASCII character: without spaces, following words seem part
/// of an address.
pub(super) fn ascii_part(key: &str) -> &str {
    let end = key.find(|c: char| !c.is_ascii()).unwrap_or(key.len());
    key[..end].trim_end_matches('/')
}

fn address_of(capture: &regex::Captures<'_>) -> Option<String> {
    let address = capture.name("address").or(capture.name("doi"))?.as_str();
    Some(address_key(&address[..address.floor_char_boundary(ADDRESS_BYTES_MAX)]))
}

/// Normalizes an address: without scheme, `www.`, fragment, trailing slash, `utm_` parameters and
/// sentence punctuation, and with a lower-case host.
fn address_key(address: &str) -> String {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address = address.split('#').next().unwrap_or_default();
    let mut address = address.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']);
    let unopened = address.matches(')').count().saturating_sub(address.matches('(').count());
    for _ in 0..unopened {
        let Some(inner) = address.strip_suffix(')') else { break };
        address = inner.trim_end_matches(['.', ',', ';', ':']);
    }
    let (host, path) = address.split_at(address.find('/').unwrap_or(address.len()));
    let host = host.to_ascii_lowercase();
    let host = host.strip_prefix("www.").unwrap_or(&host);
    let path = without_tracking(path.trim_end_matches('/'));
    if matches!(host, "doi.org" | "dx.doi.org") {
        return path.trim_start_matches('/').to_ascii_lowercase();
    }
    if host.starts_with("10.") {
        return address.to_ascii_lowercase();
    }
    format!("{host}{path}")
}

/// Returns a path without tracking parameters.
fn without_tracking(path: &str) -> Cow<'_, str> {
    let Some((page, query)) = path.split_once('?').filter(|(_, query)| query.contains("utm_"))
    else {
        return Cow::Borrowed(path);
    };
    let kept = query.split('&').filter(|parameter| !parameter.starts_with("utm_"));
    let kept = kept.collect::<Vec<_>>().join("&");
    Cow::Owned(if kept.is_empty() {
        page.trim_end_matches('/').to_owned()
    } else {
        format!("{page}?{kept}")
    })
}

/// Returns the numbers in brackets, with expanded ranges.
fn numbers_of(capture: &regex::Captures<'_>) -> Vec<u32> {
    let Some(numbers) = capture.name("numbers").or(capture.name("dagger")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for part in numbers.as_str().split([',', ';']) {
        let mut ends = part.split(['-', '–']).filter_map(|end| end.trim().parse::<u32>().ok());
        let Some(first) = ends.next() else { continue };
        let last = ends.next().unwrap_or(first);
        found.extend((first..=last.max(first)).take(NUMBERS_MAX - found.len().min(NUMBERS_MAX)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found =
            citations(text, 20).expect("few").into_iter().map(|citation| match citation.source {
                CitedSource::Address(key) => key,
                CitedSource::Number(number) => format!("[{number}]"),
                CitedSource::AuthorYear => text[citation.place].to_owned(),
            });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn citations_are_found_as_answers_write_them() {
        check("It rains (https://www.Weather.example/rome/).", &["weather.example/rome"]);
        check(
            "((https://a.example/x).)). (https://b.example/y_(z)).",
            &["a.example/x", "b.example/y_(z)"],
        );
        check("See [the page](http://a.example/x_(y)?q=1#top), please.", &["a.example/x_(y)?q=1"]);
        check(
            "As doi:10.1000/AB.12 says, and https://doi.org/10.1000/ab.12.",
            &["10.1000/ab.12", "10.1000/ab.12"],
        );
        check(
            "It rains [1], it snows [2, 4-5][^7]. So it is 【3†source】.",
            &["[1]", "[2]", "[4]", "[5]", "[7]", "[3]"],
        );
        check("Rome is old (Livy, 1998) and large (Smith and Jones, 2010; no).", &["(Livy, 1998)"]);
        check(
            "It is (Smith & Jones, 2010), (Smith et al., 2020b).",
            &["(Smith & Jones, 2010)", "(Smith et al., 2020b)"],
        );
        check(
            "In 2020 (in May 2020, March 2020) (June 2020) a[1234] was b[i] of [x] (see 10.5).",
            &[],
        );
    }

    #[test]
    fn a_line_that_explains_a_number_gives_it_its_address() {
        check(
            "It rains [1] and snows [2].\n\n[1]: https://a.example\n[2] Snow, 10.1000/s\n",
            &["a.example", "10.1000/s"],
        );
        check(
            "It rains [1].\n- [1] https://a.example\n- [3] https://c.example",
            &["a.example", "c.example"],
        );
        check("[1] says so.", &["[1]"]);
    }

    #[test]
    fn addresses_end_at_the_punctuation_of_any_script() {
        for end in "。，、；：！？（）「」『』《》“”‘’«»…—·✅".chars()
        {
            check(&format!("https://a.example/x{end}y"), &["a.example/x"]);
            check(&format!("见10.1000/x{end}y"), &["10.1000/x"]);
        }
        check("“https://a.example/x”、「https://b.example」。", &["a.example/x", "b.example"]);
        check("https://ja.example/wiki/東京", &["ja.example/wiki/東京"]);
    }

    #[test]
    fn indices_of_code_are_no_citations() {
        check("Take items[0], argv[1] and m[1][2] of [0, 1].", &[]);
        check(
            "f(x)[1] is `a [2]`, ``b [3]`` is\n```\n[4] https://a.example\n```\n[5]",
            &["a.example", "[5]"],
        );
        check("It is `one\nand two [1].", &["[1]"]);
        check("أمطرت [١] (Livy, 1998).", &["(Livy, 1998)"]);
        check("It rains[1]. It snows[1][2].\nIt is hot[3]", &["[1]", "[1]", "[2]", "[3]"]);
        check("下雨[1]，下雪[2]。", &["[1]", "[2]"]);
        check("[Rome][1] is a[2] city.\n[1]: https://a.example", &["a.example"]);
    }

    #[test]
    fn an_answer_of_any_length_has_as_many_citations_as_it_may() {
        let check = |text: &str, expected: Option<usize>| {
            assert_eq!(citations(text, 200).map(|found| found.len()), expected);
        };
        check(&" [1-20]".repeat(1_000_000), None);
        check(&" [1-20]".repeat(10), Some(200));
        check(&format!("{}[1]", " ".repeat(1_000_000)), Some(1));
        let explained: String =
            (1..400).map(|n| format!("[{n}] https://a.example/{n}\n")).collect();
        check(&explained, None);
        check(&format!("It rains [1-10].\n{explained}"), None);
        check(&"[1] https://a.example\n".repeat(1_000), None);
        check(&format!("https://a.example/{}", ").".repeat(1_000_000)), Some(1));
        let long =
            format!("{}\n[1] https://a.example/{}", "[1] is ".repeat(199), "x".repeat(9_000));
        let found = citations(&long, 200).expect("few");
        let held = found.iter().map(|one| match &one.source {
            CitedSource::Address(key) => key.len(),
            _ => 0,
        });
        assert!(found.len() == 199 && held.max() < Some(3_000));
    }

    #[test]
    fn addresses_of_results_are_found_in_any_text() {
        let mut found = Vec::new();
        let text = r#"{"url":"https:\/\/a.example\/x","doi":"10.1000/q"} https://b.example."#;
        addresses(text, &mut |key| found.push(key));
        assert_eq!(found, ["a.example/x", "10.1000/q", "b.example"]);
        assert_eq!(without_query("a.example/x?y=1"), "a.example/x");
    }
}
