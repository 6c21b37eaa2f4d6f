//! Stored openings of the detectors of built-in packs.
//!
//! `packs/openings.txt` has the results of [`Opening::of`] for all built-in packs, one line per
//! detector in the order of its pack. A test compares them, and rewrites the file with
//! `UPDATE_OPENINGS=1`. Its first lines define the byte sets, which are referenced by number.

use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;

use super::Opening;
use super::ahead::Ahead;
use super::number::Point;
use crate::pack::match_bounds::MatchBounds;

const OPENINGS: &str = include_str!("../../packs/openings.txt");

/// Returns the stored opening of a built-in pack's detector, by its index; `None` for a pack that
/// is not stored.
pub(in crate::pack) fn opening(pack: &str, index: usize) -> Option<Opening> {
    static WRITTEN: LazyLock<HashMap<&str, Vec<Opening>>> = LazyLock::new(|| read(OPENINGS));
    WRITTEN.get(pack)?.get(index).cloned()
}

/// Parsed byte sets.
#[derive(Default)]
struct ByteSets {
    bytes: Vec<u128>,
    aheads: Vec<Arc<Ahead>>,
}

fn read(text: &'static str) -> HashMap<&'static str, Vec<Opening>> {
    let mut packs: HashMap<&str, Vec<Opening>> = HashMap::new();
    let mut sets = ByteSets::default();
    let mut pack = "";
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("set", bytes)) => {
                sets.bytes.push(u128::from_str_radix(bytes, 16).unwrap_or(u128::MAX));
            }
            Some(("ahead", numbers)) => {
                let mut ahead = Ahead::ANY;
                for (set, number) in ahead.0.iter_mut().zip(numbers.split(' ')) {
                    *set = sets.of(number);
                }
                sets.aheads.push(Arc::new(ahead));
            }
            Some(("pack", name)) => pack = name,
            _ => packs.entry(pack).or_default().push(sets.opening(line)),
        }
    }
    packs
}

impl ByteSets {
    fn of(&self, number: &str) -> u128 {
        number.parse().ok().and_then(|number: usize| self.bytes.get(number).copied()).unwrap_or(!0)
    }

    /// Parses a line: conditions other than literals, then each literal.
    fn opening(&self, line: &str) -> Opening {
        let mut opening = Opening::default();
        for field in line.split('\t') {
            let mut words = field.splitn(6, ' ');
            match words.next() {
                Some("token") => opening.in_token = true,
                Some("beyond") => opening.or_non_ascii = true,
                Some("begin") => opening.begin = *self.ahead(words.next()),
                Some("contexts") => {
                    opening.contexts = [(); 4].map(|()| *self.ahead(words.next()));
                }
                Some("point") => {
                    let (reach, ahead) = self.reach(&mut words);
                    opening.point = Some(Point { reach, ahead: *ahead });
                }
                Some("at") => {
                    let (reach, ahead) = self.reach(&mut words);
                    opening.literals.push((opening.needs.len(), reach, ahead));
                    opening.needs.push(plain(words.next().unwrap_or_default()));
                }
                Some("need") => {
                    let literal = field.split_once(' ').unwrap_or_default().1;
                    opening.needs.push(plain(literal));
                }
                _ => {}
            }
        }
        opening
    }

    fn reach<'t>(&self, words: &mut impl Iterator<Item = &'t str>) -> (MatchBounds, Arc<Ahead>) {
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or_default();
        let [before, after, past] = [(); 3].map(|()| number());
        (MatchBounds { before, after, past }, self.ahead(words.next()))
    }

    fn ahead(&self, number: Option<&str>) -> Arc<Ahead> {
        let number = number.and_then(|number| number.parse::<usize>().ok());
        number.and_then(|number| self.aheads.get(number).cloned()).unwrap_or_default()
    }
}

/// Returns a literal with its white space unescaped.
fn plain(literal: &str) -> String {
    if !literal.contains('\\') {
        return literal.to_owned();
    }
    let mut plain = String::new();
    let mut chars = literal.chars();
    while let Some(char) = chars.next() {
        plain.push(match (char, char == '\\') {
            (_, true) => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                other => other.unwrap_or('\\'),
            },
            (char, false) => char,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::pack::expression::CompileTime;
    use crate::pack::{REFUSAL, SAFETY, config};
    use crate::prefilter::sieve::ANCHORS_MAX;

    /// Writer of openings, with the numbers of the written byte sets.
    #[derive(Default)]
    struct Written {
        sets: HashMap<u128, usize>,
        aheads: HashMap<Ahead, usize>,
        head: String,
        packs: String,
    }

    impl Written {
        fn ahead(&mut self, ahead: &Ahead) -> usize {
            if let Some(known) = self.aheads.get(ahead) {
                return *known;
            }
            let mut line = "ahead".to_owned();
            for set in ahead.0 {
                let next = self.sets.len();
                let number = *self.sets.entry(set).or_insert_with(|| {
                    writeln!(self.head, "set {set:x}").unwrap();
                    next
                });
                write!(line, " {number}").unwrap();
            }
            writeln!(self.head, "{line}").unwrap();
            let number = self.aheads.len();
            self.aheads.insert(*ahead, number);
            number
        }

        fn reach(&mut self, reach: MatchBounds, ahead: &Ahead) -> String {
            let MatchBounds { before, after, past } = reach;
            format!("{before} {after} {past} {}", self.ahead(ahead))
        }

        fn add(&mut self, opening: &Opening) {
            let mut fields = vec!["opening".to_owned()];
            fields.extend(opening.in_token.then(|| "token".to_owned()));
            fields.extend(opening.or_non_ascii.then(|| "beyond".to_owned()));
            fields.push(format!("begin {}", self.ahead(&opening.begin)));
            if opening.contexts != [Ahead::ANY; 4] {
                let numbers = opening.contexts.map(|ahead| self.ahead(&ahead).to_string());
                fields.push(format!("contexts {}", numbers.join(" ")));
            }
            if let Some(point) = &opening.point {
                fields.push(format!("point {}", self.reach(point.reach, &point.ahead)));
            }
            for (index, need) in opening.needs.iter().enumerate() {
                let need = need.replace('\\', "\\\\").replace('\n', "\\n");
                let need = need.replace('\t', "\\t").replace('\r', "\\r");
                let known = opening.literals.iter().find(|literal| literal.0 == index);
                fields.push(match known {
                    Some((_, reach, ahead)) => format!("at {} {need}", self.reach(*reach, ahead)),
                    None => format!("need {need}"),
                });
            }
            writeln!(self.packs, "{}", fields.join("\t")).unwrap();
        }
    }

    #[test]
    fn openings_are_written_as_they_are_read_from_the_expressions() {
        let others = [
            REFUSAL,
            include_str!("../../packs/iris.yaml"),
            include_str!("../../packs/judges.yaml"),
        ];
        let mut written = Written::default();
        for pack in config::with_shared(&[&SAFETY[..], &others].concat()).unwrap() {
            if !pack.detectors.is_empty() {
                writeln!(written.packs, "pack {}", pack.name).unwrap();
            }
            for detector in &pack.detectors {
                let when = (CompileTime::Needed, ANCHORS_MAX);
                written.add(&Opening::of(detector, &pack, when).unwrap());
            }
        }
        let written = written.head + &written.packs;
        if std::env::var_os("UPDATE_OPENINGS").is_some() {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/packs/openings.txt");
            std::fs::write(file, &written).unwrap();
        } else {
            assert!(written == OPENINGS, "run the test with UPDATE_OPENINGS=1 to write them anew");
        }
        let names = ["set", "ahead", "pack"];
        assert!(names.iter().all(|name| written.contains(&format!("{name} "))));
    }
}
