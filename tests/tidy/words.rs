//! Words and modules of source files, as far as the rules need them.

use crate::source::{Source, is_word};

/// Path of names from the root of the project.
type Path = Vec<String>;

/// Returns the modules of files that are declared for tests alone.
pub(crate) fn test_modules(sources: &[Source]) -> Vec<Path> {
    let mut found = Vec::new();
    for source in sources {
        let module = module_of(&source.path);
        let tests = declared(source).into_iter().filter(|one| source.is_test(one.at));
        found.extend(tests.map(|one| [module.clone(), vec![one.name]].concat()));
    }
    found
}

/// Returns true if a file is only built for tests: all of it, or one of these modules with its
/// contents.
pub(crate) fn is_test_module(source: &Source, only_tests: &[Path]) -> bool {
    let module = module_of(&source.path);
    source.is_test_file() || only_tests.iter().any(|test| module.starts_with(test))
}

/// Returns the module of a file: `crates/a/src/b.rs` and `crates/a/src/b/mod.rs` are the same.
fn module_of(path: &str) -> Path {
    let names = path.trim_end_matches(".rs").split('/');
    names
        .filter(|name| !matches!(*name, "src" | "lib" | "main" | "mod"))
        .map(str::to_owned)
        .collect()
}

/// A module that a file declares.
struct Declared {
    at: usize,
    name: String,
}

/// Returns the modules that a file declares.
fn declared(source: &Source) -> Vec<Declared> {
    let bare = &source.bare;
    let mut found = Vec::new();
    for at in words(bare, "mod") {
        let name = identifier(bare, skip_space(bare, at + 3)).to_owned();
        let behind = skip_space(bare, skip_space(bare, at + 3) + name.len());
        if matches!(bare.as_bytes().get(behind), Some(b';' | b'{')) {
            found.push(Declared { at, name });
        }
    }
    found
}

/// Returns the places of a word that is no part of another.
pub(crate) fn words(bare: &str, word: &str) -> Vec<usize> {
    let bytes = bare.as_bytes();
    let is_part = |at: Option<&u8>| at.is_some_and(|byte| is_word(*byte) || *byte == b'#');
    let found = bare.match_indices(word).map(|(at, _)| at).filter(|at| {
        !is_part(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_part(bytes.get(at + word.len()))
    });
    found.collect()
}

pub(crate) fn skip_space(bare: &str, at: usize) -> usize {
    let rest = &bare[at.min(bare.len())..];
    at + (rest.len() - rest.trim_start().len())
}

pub(crate) fn identifier(bare: &str, at: usize) -> &str {
    let rest = &bare[at.min(bare.len())..];
    &rest[..rest.bytes().take_while(|byte| is_word(*byte)).count()]
}
