//! Citations in a text: addresses, DOIs, numbers in brackets, authors with a year.

use std::ops::Range;
use std::sync::LazyLock;

use hashbrown::HashMap;
use regex::Regex;

/// Citation of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Citation {
    /// Place in the text, bytes.
    pub(super) place: Range<usize>,
    /// Source that it names.
    pub(super) source: CitedSource,
}

/// Source that a citation names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CitedSource {
    /// Address or DOI, as [`address_key`] has it.
    Address(String),
    /// Number that no line of the text explains by an address.
    Number(u32),
    /// Author and year.
    AuthorYear,
}

/// Forms of citations, each with the group of its name.
const FORMS: &str = concat!(
    r#"(?P<address>(?i:https?)://[^\s<>"'`{}|\\^\[\]【】]+)"#,
    r#"|(?P<doi>\b10\.\d{4,9}/[^\s<>"'\[\]]+)"#,
    r"|\[\^?(?P<numbers>\d{1,3}(?:\s?[,;–-]\s?\d{1,3}){0,9})\]",
    r"|【(?P<dagger>\d{1,3})[^】]{0,80}】",
    r"|\((?P<author>\p{Lu}[\p{L}'’.-]+",
    r"(?:(?:,|\sand|\s&|\set\sal\.?)?\s\p{Lu}?[\p{L}'’.-]*){0,4},\s",
    r"(?:1[89]|20)\d\d[a-z]?)\)",
);

static CITATION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(FORMS).ok());

/// Numbers of one pair of brackets at most.
const NUMBERS_MAX: usize = 20;

/// Finds the citations of an answer in order. A line that explains a number by an address gives
/// its address to all citations of that number, and is none itself unless nothing cites it.
pub(super) fn citations(text: &str) -> Vec<Citation> {
    let mut explained: HashMap<u32, (String, bool)> = HashMap::new();
    let mut found: Vec<(Citation, Option<u32>)> = Vec::new();
    let mut explains: Option<(u32, usize)> = None;
    let captures = CITATION.iter().flat_map(|form| form.captures_iter(text));
    for capture in captures {
        let Some(whole) = capture.get(0) else { continue };
        let place = whole.range();
        let line_end = |at: usize| text[at..].find('\n').map_or(text.len(), |end| at + end);
        if let Some(source) = address_of(&capture) {
            let number = explains.take().filter(|(_, end)| place.start < *end);
            let number = number.map(|(number, _)| number);
            if let Some(number) = number {
                explained.entry(number).or_insert((source.clone(), false));
            }
            found.push((Citation { place, source: CitedSource::Address(source) }, number));
            continue;
        }
        let numbers = numbers_of(&capture);
        if let ([number], true) = (&*numbers, begins_line(text, place.start)) {
            let end = line_end(place.end);
            if CITATION.iter().any(|form| {
                form.captures_iter(&text[place.end..end]).any(|inner| address_of(&inner).is_some())
            }) {
                explains = Some((*number, end));
                continue;
            }
        }
        if numbers.is_empty() {
            found.push((Citation { place: place.clone(), source: CitedSource::AuthorYear }, None));
        }
        for number in numbers {
            let source = CitedSource::Number(number);
            found.push((Citation { place: place.clone(), source }, None));
        }
    }
    for (citation, _) in &mut found {
        if let CitedSource::Number(number) = citation.source
            && let Some((address, is_cited)) = explained.get_mut(&number)
        {
            *is_cited = true;
            citation.source = CitedSource::Address(address.clone());
        }
    }
    let is_cited = |number: &u32| explained.get(number).is_some_and(|(_, is_cited)| *is_cited);
    let counts = |(_, number): &(Citation, Option<u32>)| !number.as_ref().is_some_and(is_cited);
    found.into_iter().filter(counts).map(|(citation, _)| citation).collect()
}

/// Collects the addresses and DOIs of a text, as [`address_key`] has them.
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

/// Returns the key without its query: what is left names the same page for most sites.
pub(super) fn without_query(key: &str) -> &str {
    key.split_once('?').map_or(key, |(page, _)| page)
}

fn address_of(capture: &regex::Captures<'_>) -> Option<String> {
    let address = capture.name("address").or(capture.name("doi"))?;
    Some(address_key(address.as_str()))
}

/// Returns an address in the form by which equal ones are found: without scheme, `www.`, fragment,
/// closing slash and the punctuation of the sentence, the host in lower case.
fn address_key(address: &str) -> String {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address = address.split('#').next().unwrap_or_default();
    let mut address = address.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_', '…']);
    while address.ends_with(')') && address.matches(')').count() > address.matches('(').count() {
        address = address[..address.len() - 1].trim_end_matches(['.', ',', ';', ':']);
    }
    let (host, path) = address.split_at(address.find('/').unwrap_or(address.len()));
    let host = host.to_ascii_lowercase();
    let host = host.strip_prefix("www.").unwrap_or(&host);
    let path = path.trim_end_matches('/');
    if matches!(host, "doi.org" | "dx.doi.org") {
        return path.trim_start_matches('/').to_ascii_lowercase();
    }
    if host.starts_with("10.") {
        return address.to_ascii_lowercase();
    }
    format!("{host}{path}")
}

/// Returns the numbers of brackets, ranges spelt out.
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

/// Returns true if nothing but a list mark stands between the start of a line and a place.
fn begins_line(text: &str, place: usize) -> bool {
    let start = text[..place].rfind('\n').map_or(0, |at| at + 1);
    text[start..place].chars().all(|c| c.is_whitespace() || matches!(c, '-' | '*' | '•'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found = citations(text).into_iter().map(|citation| match citation.source {
            CitedSource::Address(key) => key,
            CitedSource::Number(number) => format!("[{number}]"),
            CitedSource::AuthorYear => text[citation.place].to_owned(),
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn citations_are_found_as_answers_write_them() {
        check("It rains (https://www.Weather.example/rome/).", &["weather.example/rome"]);
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
    fn addresses_of_results_are_found_in_any_text() {
        let mut found = Vec::new();
        let text = r#"{"url":"https:\/\/a.example\/x","doi":"10.1000/q"} https://b.example."#;
        addresses(text, &mut |key| found.push(key));
        assert_eq!(found, ["a.example/x", "10.1000/q", "b.example"]);
        assert_eq!(without_query("a.example/x?y=1"), "a.example/x");
    }
}
