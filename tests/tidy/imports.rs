//! What a file names of other modules, however it is spelled.
//!
//! `use crate::{a, b::c}`, `use crate::a as x` and then `x::f`, `crate::a::f()` in an expression,
//! `super::super::a`, a child module, nested groups: each becomes the whole path of what is named.
//! All files together make a [`Tree`], whose arrows lead from module to module.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::source::{Source, closing, is_word};

/// A path of names: a module, or something in one.
pub(crate) type Path = Vec<String>;

/// What one file names elsewhere.
pub(crate) struct Named {
    /// The line.
    pub(crate) line: usize,
    /// The module in which it is named.
    pub(crate) from: Path,
    /// What is named.
    pub(crate) what: What,
}

/// Something that is named.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum What {
    /// Of ours, by its path from the root of the crate.
    Ours(Path),
    /// Of another crate.
    Theirs(Path),
}

/// An arrow from a module to one of ours that it names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Arrow {
    /// File and line.
    pub(crate) place: String,
    /// The module that names.
    pub(crate) from: Path,
    /// The module that is named, or that holds what is named; empty for the root of the crate.
    pub(crate) to: Path,
}

/// The modules of the crate, and what their files name; files of tests are left out.
pub(crate) struct Tree {
    modules: BTreeSet<Path>,
    files: Vec<(String, Vec<Named>)>,
}

impl Tree {
    /// Reads the files below `src`.
    pub(crate) fn new(sources: &[Source]) -> Self {
        let only_tests = test_modules(sources);
        let shipped = sources.iter().filter(|source| !is_test_module(source, &only_tests));
        let files: Vec<_> = shipped.map(File::read).collect();
        let modules: BTreeSet<Path> = files.iter().flat_map(|file| file.modules()).collect();
        let names = |file: &File<'_>| (file.source.path.clone(), file.named(&modules));
        let files = files.iter().map(names).collect();
        Self { files, modules }
    }

    /// What is named, with the file that names it.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, &Named)> {
        self.files.iter().flat_map(|(path, named)| named.iter().map(|one| (path.as_str(), one)))
    }

    /// The arrows between modules of ours.
    pub(crate) fn arrows(&self) -> impl Iterator<Item = Arrow> {
        self.named().filter_map(|(path, named)| {
            let What::Ours(what) = &named.what else { return None };
            let to = self.holder(what);
            let place = format!("{path}:{}", named.line);
            (to != named.from).then(|| Arrow { place, from: named.from.clone(), to })
        })
    }

    /// The innermost module on a path.
    fn holder(&self, path: &[String]) -> Path {
        let lengths = (0..=path.len()).rev();
        let mut prefixes = lengths.map(|length| path[..length].to_vec());
        prefixes.find(|prefix| self.modules.contains(prefix)).unwrap_or_default()
    }
}

/// The modules of files that are declared for tests alone.
pub(crate) fn test_modules(sources: &[Source]) -> Vec<Path> {
    let mut found = Vec::new();
    for source in sources {
        let module = module_of(&source.path);
        let tests = declared(source).into_iter().filter(|one| source.is_test(one.at));
        found.extend(tests.map(|one| [module.clone(), vec![one.name]].concat()));
    }
    found
}

/// Whether a file is only built for tests: all of it, or one of these modules with what is in it.
pub(crate) fn is_test_module(source: &Source, only_tests: &[Path]) -> bool {
    let module = module_of(&source.path);
    source.is_test_file() || only_tests.iter().any(|test| module.starts_with(test))
}

/// The module that a file holds: that of `src/a/b.rs` and of `src/a/b/mod.rs` is `a::b`.
fn module_of(path: &str) -> Path {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let names = path.split('/').filter(|name| !matches!(*name, "lib" | "main"));
    names.map(str::to_owned).collect()
}

/// A module that a file declares.
struct Declared {
    at: usize,
    name: String,
    /// The body of one that is written in place.
    body: Option<Range<usize>>,
}

/// The modules that a file declares.
fn declared(source: &Source) -> Vec<Declared> {
    let bare = &source.bare;
    let mut found = Vec::new();
    for at in words(bare, "mod") {
        let name = identifier(bare, skip_space(bare, at + 3)).to_owned();
        let behind = skip_space(bare, skip_space(bare, at + 3) + name.len());
        match bare.as_bytes().get(behind) {
            Some(b';') => found.push(Declared { at, name, body: None }),
            Some(b'{') => {
                let end = closing(bare.as_bytes(), behind).unwrap_or(bare.len());
                found.push(Declared { at, name, body: Some(behind..end) });
            }
            _ => {}
        }
    }
    found
}

/// A `use`: what it names, as what, and where.
struct Use {
    at: usize,
    module: Path,
    path: Path,
    /// The name that it has here; none of `*` and `_`.
    name: Option<String>,
}

struct File<'s> {
    source: &'s Source,
    module: Path,
    declared: Vec<Declared>,
    uses: Vec<Use>,
    /// Where the `use` items stand.
    used: Vec<Range<usize>>,
}

impl<'s> File<'s> {
    fn read(source: &'s Source) -> Self {
        let (module, declared) = (module_of(&source.path), declared(source));
        let mut file = Self { source, module, declared, uses: Vec::new(), used: Vec::new() };
        let bare = &source.bare;
        for at in words(bare, "use").into_iter().filter(|at| !source.is_test(*at)) {
            let start = skip_space(bare, at + 3);
            // `impl Trait + use<'a>` names nothing.
            if bare[start..].starts_with('<') {
                continue;
            }
            let end = bare[at..].find(';').map_or(bare.len(), |length| at + length);
            let module = file.module_at(at);
            for (path, name) in use_tree(&bare[start..end]) {
                file.uses.push(Use { at, module: module.clone(), path, name });
            }
            file.used.push(at..end);
        }
        file
    }

    /// The modules that the file holds, its own among them.
    fn modules(&self) -> Vec<Path> {
        let inner = self.declared.iter().filter(|one| !self.source.is_test(one.at));
        let inner = inner.map(|one| [self.module_at(one.at), vec![one.name.clone()]].concat());
        inner.chain([self.module.clone()]).collect()
    }

    /// The module to which what stands at this byte belongs.
    fn module_at(&self, at: usize) -> Path {
        let mut module = self.module.clone();
        for Declared { name, body, .. } in &self.declared {
            if body.as_ref().is_some_and(|body| body.contains(&at)) {
                module.push(name.clone());
            }
        }
        module
    }

    /// All that the file names elsewhere.
    fn named(&self, modules: &BTreeSet<Path>) -> Vec<Named> {
        let mut aliases: BTreeMap<(&Path, &str), &Use> = BTreeMap::new();
        for one in &self.uses {
            if let Some(name) = &one.name {
                aliases.insert((&one.module, name), one);
            }
        }
        let scope = Scope { aliases, modules };
        let line = |at| self.source.line_of(at);
        let uses = self.uses.iter().map(|one| Named {
            line: line(one.at),
            from: one.module.clone(),
            what: scope.resolve(&one.module, &one.path, STEPS_MAX),
        });
        let paths = self.paths().into_iter().map(|(at, path)| {
            let from = self.module_at(at);
            let what = scope.resolve(&from, &path, STEPS_MAX);
            Named { line: line(at), from, what }
        });
        uses.chain(paths).collect()
    }

    /// The paths of two names and more that stand outside of `use` items.
    fn paths(&self) -> Vec<(usize, Path)> {
        let bare = &self.source.bare;
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(colons) = bare[at..].find("::").map(|length| at + length) {
            let start = word_start(bare, colons);
            let (path, end) = path_at(bare, start);
            at = end.max(colons + 2);
            let is_used = self.used.iter().any(|used| used.contains(&start));
            let is_visibility = bare[..start].trim_end().ends_with("pub(in");
            if path.len() > 1 && !is_used && !is_visibility && !self.source.is_test(start) {
                found.push((start, path));
            }
        }
        found
    }
}

/// Most names that stand for another in turn.
const STEPS_MAX: usize = 8;

/// What names mean in a file.
struct Scope<'f> {
    aliases: BTreeMap<(&'f Path, &'f str), &'f Use>,
    modules: &'f BTreeSet<Path>,
}

impl Scope<'_> {
    /// The whole path of one that is written in a module.
    fn resolve(&self, module: &Path, path: &[String], steps: usize) -> What {
        let [first, rest @ ..] = path else { return What::Ours(module.clone()) };
        match first.as_str() {
            "crate" | "spanscore" => return What::Ours(rest.to_vec()),
            "self" | "super" => return What::Ours(relative(module, path)),
            _ => {}
        }
        let child = [module.clone(), vec![first.clone()]].concat();
        if self.modules.contains(&child) {
            return What::Ours([&child, rest].concat());
        }
        match self.aliases.get(&(module, first.as_str())) {
            Some(alias) if steps > 0 && alias.path != path => {
                match self.resolve(module, &alias.path, steps - 1) {
                    What::Ours(path) => What::Ours([&path, rest].concat()),
                    What::Theirs(path) => What::Theirs([&path, rest].concat()),
                }
            }
            _ => What::Theirs(path.to_vec()),
        }
    }
}

/// The whole path of one that begins with `self` or `super`.
fn relative(module: &[String], path: &[String]) -> Path {
    let mut module = module.to_vec();
    let mut rest = path;
    while let [first, behind @ ..] = rest {
        match first.as_str() {
            "self" => {}
            "super" => drop(module.pop()),
            _ => break,
        }
        rest = behind;
    }
    [&module, rest].concat()
}

/// The paths of a `use`, each with the name that it gives.
fn use_tree(tree: &str) -> Vec<(Path, Option<String>)> {
    let mut found = Vec::new();
    branches(tree.trim(), &[], &mut found);
    found
}

fn branches(tree: &str, prefix: &[String], found: &mut Vec<(Path, Option<String>)>) {
    let tree = tree.trim().trim_start_matches("::").trim();
    let (head, group) = match tree.find('{') {
        Some(open) => (&tree[..open], Some(&tree[open + 1..tree.rfind('}').unwrap_or(tree.len())])),
        None => (tree, None),
    };
    let (head, alias) = match head.split_once(" as ") {
        Some((head, alias)) => (head, Some(alias.trim())),
        None => (head, None),
    };
    let mut path = prefix.to_vec();
    let names = head.split("::").map(|name| name.trim().trim_start_matches("r#"));
    path.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
    if let Some(group) = group {
        return split_group(group).into_iter().for_each(|tree| branches(tree, &path, found));
    }
    // `a::{self}` is `a`; a `self` in front is the module itself.
    if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
        path.pop();
    }
    let name = match (alias, path.last().map(String::as_str)) {
        (Some("_"), _) | (None, Some("*") | None) => None,
        (Some(alias), _) => Some(alias.to_owned()),
        (None, Some(name)) => Some(name.to_owned()),
    };
    if !path.is_empty() {
        found.push((path, name));
    }
}

/// The parts of a group, whose own groups stay whole.
fn split_group(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Where a word stands that is no part of another.
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

/// Where the word begins that ends at `end`; `end` where there is none.
fn word_start(bare: &str, end: usize) -> usize {
    let bytes = bare.as_bytes();
    let length = bytes[..end].iter().rev().take_while(|byte| is_word(**byte)).count();
    end - length
}

/// The path that begins at `at`, and where it ends.
fn path_at(bare: &str, at: usize) -> (Path, usize) {
    let (mut path, mut end) = (Vec::new(), at);
    loop {
        let name = identifier(bare, end);
        if name.is_empty() {
            return (path, end);
        }
        path.push(name.to_owned());
        end += name.len();
        if !bare[end..].starts_with("::") {
            return (path, end);
        }
        end += 2;
    }
}

#[cfg(test)]
mod tests;
