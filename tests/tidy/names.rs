//! The names of types: none means two things, so that a reader who knows one knows it everywhere.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::source::{Source, closing};
use crate::words::{identifier, is_test_module, skip_space, test_modules, words};

/// Words that declare a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Types that each module may have one of for itself, and the folders in which it may.
const PRIVATE: [&str; 2] = ["Settings", "Criteria"];
const WITH_PRIVATE: [&str; 2] =
    ["crates/evaluate/src/kinds/", "crates/evaluate/src/shared/expected_calls/"];

/// The names that stand for more than one type, with the places of each.
pub(crate) fn breaches(sources: &[Source]) -> Vec<String> {
    let only_tests = test_modules(sources);
    let mut places: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !is_test_module(source, &only_tests)) {
        for (at, name) in declared(source) {
            places.entry(name).or_default().push((&source.path, source.line_of(at)));
        }
    }
    let twice = places.iter().filter(|(name, places)| {
        let private = |(path, _): &(&str, usize)| {
            PRIVATE.contains(name) && WITH_PRIVATE.iter().any(|folder| path.starts_with(folder))
        };
        places.len() > 1 && !places.iter().all(private)
    });
    let told = |(name, places): (&&str, &Vec<(&str, usize)>)| {
        let places: Vec<_> = places.iter().map(|(path, line)| format!("{path}:{line}")).collect();
        format!("`{name}` means {} things: {}", places.len(), places.join(", "))
    };
    twice.map(told).collect()
}

/// The types that a file declares outside of tests, with the places of their keywords.
fn declared(source: &Source) -> Vec<(usize, &str)> {
    let bare = &source.bare;
    let members = members(bare);
    let mut found = Vec::new();
    for keyword in KEYWORDS {
        for at in words(bare, keyword).into_iter().filter(|at| !source.is_test(*at)) {
            let start = skip_space(bare, at + keyword.len());
            let name = identifier(bare, start);
            // `union` is a keyword only here; a macro declares what it is told.
            let is_type = name.starts_with(|first: char| first.is_uppercase());
            let is_member = keyword == "type" && members.iter().any(|body| body.contains(&at));
            if is_type && !is_member {
                found.push((at, name));
            }
        }
    }
    found
}

/// The bodies of implementations and traits, whose `type`s are their members.
fn members(bare: &str) -> Vec<Range<usize>> {
    let heads = ["impl", "trait"].into_iter().flat_map(|keyword| words(bare, keyword));
    let bodies = heads.filter_map(|at| {
        // `impl Trait` in a signature has no body: what ends first tells.
        let open = at + bare[at..].find(['{', ';'])?;
        let end = closing(bare.as_bytes(), open)?;
        is_item(bare, at).then_some(open..end)
    });
    bodies.collect()
}

/// Returns true if the word at `at` begins an item, and not a type inside of one.
fn is_item(bare: &str, at: usize) -> bool {
    let line = &bare[bare[..at].rfind('\n').map_or(0, |end| end + 1)..at];
    let visibility = line.trim().trim_end_matches("unsafe").trim();
    visibility.is_empty() || (visibility.starts_with("pub") && !visibility.contains("fn "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        breaches(&sources)
    }

    #[test]
    fn a_name_of_two_types_is_found_with_its_places() {
        let declarations = [
            "struct Step;",
            "pub enum Step { A }",
            "pub(in crate::a) trait Step {}",
            "type Step<'a> = &'a str;",
            "union Step { a: u8 }",
            "fn f() {\n    struct Step;\n}",
            "mod b {\n    pub(super) type Step = u8;\n}",
            "fn f(a: impl Fn()) {\n    type Step = u8;\n}",
            "unsafe impl A for B {}\ntype Step = u8;",
        ];
        for text in declarations {
            let line = 1 + text[..text.find("Step").unwrap()].matches('\n').count();
            let files = [("src/a.rs", "\nstruct Step {\n}"), ("src/b.rs", text)];
            let breach = format!("`Step` means 2 things: src/a.rs:2, src/b.rs:{line}");
            assert_eq!(found(&files), [breach], "{text}");
        }
        let twice = "struct Step;\nmod inner {\n    enum Step {}\n}";
        let breach = "`Step` means 2 things: src/a.rs:1, src/a.rs:3";
        assert_eq!(found(&[("src/a.rs", twice)]), [breach]);
    }

    #[test]
    fn what_declares_no_type_of_ours_is_no_breach() {
        let other = [
            "use crate::a::Step;",
            "// struct Step\nconst A: &str = \"struct Step\";",
            "enum Part { Step }",
            "impl A for B {\n    type Step = u8;\n}",
            "unsafe impl A for B {\n    type Step = u8;\n}",
            "pub(crate) trait A {\n    type Step: Clone;\n}",
            "#[cfg(test)]\nmod tests {\n    struct Step;\n}",
            "#[cfg(test)]\nstruct Step;",
            "fn union(a: Step) {}",
        ];
        for text in other {
            let files = [("src/a.rs", "struct Step;"), ("src/b.rs", text)];
            assert_eq!(found(&files), [""; 0], "{text}");
        }
        let step = "struct Step;";
        let files = [
            ("src/a.rs", step),
            ("src/a/tests.rs", step),
            ("src/a/tests/b.rs", step),
            ("src/lib.rs", "#[cfg(test)]\nmod testing;"),
            ("src/testing.rs", step),
            ("src/testing/inner.rs", step),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn settings_and_criteria_may_be_private_to_a_kind_alone() {
        for name in ["Settings", "Criteria", "Rules"] {
            let text = format!("struct {name};");
            let inside = [
                "crates/evaluate/src/kinds/a.rs",
                "crates/evaluate/src/shared/expected_calls/mod.rs",
            ];
            let inside = inside.map(|path| (path, text.as_str()));
            assert_eq!(found(&inside).len(), usize::from(name == "Rules"), "{name}");
            let outside = [inside[0], ("src/emit/mod.rs", text.as_str())];
            assert_eq!(found(&outside).len(), 1, "{name}");
        }
    }
}
