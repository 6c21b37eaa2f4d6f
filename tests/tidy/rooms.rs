//! Which room of the house may import which.
//!
//! A room is a folder or file of `src`; a module belongs to the innermost room around it. Rules are
//! data, one [`Room`] each: to split a room is to add lines here.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Arrow, Path, Tree};

/// A part of the house, and the others that it may import.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// From `src`, such as `evaluate` or `evaluate/kinds`; `crate` for `lib.rs` and `main.rs`.
    pub(crate) name: &'static str,
    /// Other rooms: `evaluate` means that room alone, `evaluate/*` those inside of it, too, and `*`
    /// all rooms.
    pub(crate) imports: &'static [&'static str],
}

impl Room {
    fn holds(&self, module: &Path) -> bool {
        let mut names = self.name.split('/').filter(|name| *name != "crate");
        let mut module = module.iter();
        names.all(|name| module.next().is_some_and(|own| own == name))
    }

    fn may_import(&self, other: &Room) -> bool {
        self.name == other.name
            || self.imports.iter().any(|allowed| match allowed.strip_suffix('*') {
                Some("") => true,
                Some(folder) => {
                    other.name.starts_with(folder) || other.name == folder.trim_end_matches('/')
                }
                None => *allowed == other.name,
            })
    }
}

/// The innermost room around a module.
fn room_of<'r>(rooms: &'r [Room], module: &Path) -> Option<&'r Room> {
    let is_nearer = |room: &&Room| (room.name != "crate", room.name.len());
    let around = rooms.iter().filter(|room| room.holds(module));
    around.filter(|room| room.name != "crate" || module.is_empty()).max_by_key(is_nearer)
}

/// The imports that no rule allows.
pub(crate) fn breaches(tree: &Tree, rooms: &[Room]) -> Vec<String> {
    let shown = |module: &Path| format!("crate::{}", module.join("::"));
    let breach =
        |Arrow { place, from, to }: Arrow| match (room_of(rooms, &from), room_of(rooms, &to)) {
            (Some(own), Some(other)) if own.may_import(other) => None,
            (Some(own), Some(other)) => {
                Some(format!("{place}: `{}` imports `{}` ({})", own.name, other.name, shown(&to)))
            }
            (None, _) => Some(format!("{place}: {} belongs to no room", shown(&from))),
            (_, None) => Some(format!("{place}: {} belongs to no room", shown(&to))),
        };
    tree.arrows().filter_map(breach).collect()
}

/// The circles between rooms: sets of rooms, each of which leads to all others of its set.
pub(crate) fn circles(tree: &Tree, rooms: &[Room]) -> Vec<String> {
    let mut leads_to: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for arrow in tree.arrows() {
        if let (Some(own), Some(other)) = (room_of(rooms, &arrow.from), room_of(rooms, &arrow.to))
            && own.name != other.name
        {
            leads_to.entry(own.name).or_default().insert(other.name);
        }
    }
    let reached = |from| {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(room) = open.pop() {
            let next = leads_to.get(room).into_iter().flatten().copied();
            open.extend(next.filter(|room| found.insert(*room)));
        }
        found
    };
    let all: BTreeMap<&str, BTreeSet<&str>> =
        leads_to.keys().map(|room| (*room, reached(*room))).collect();
    let back = |from: &str, to: &str| all.get(to).is_some_and(|reached| reached.contains(from));
    let mut circles = BTreeSet::new();
    for (room, reached) in &all {
        let circle: Vec<_> = reached.iter().copied().filter(|other| back(room, other)).collect();
        if circle.len() > 1 {
            circles.insert(format!("a circle: {}", circle.join(", ")));
        }
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    const ROOMS: &[Room] = &[
        Room { name: "crate", imports: &["*"] },
        Room { name: "model", imports: &[] },
        Room { name: "receive", imports: &["model"] },
        Room { name: "emit", imports: &["model"] },
        Room { name: "emit/kinds", imports: &["emit", "model"] },
        Room { name: "pipeline", imports: &["emit/*", "receive", "model"] },
    ];

    fn tree(files: &[(&str, &str)]) -> Tree {
        let rest = ["model", "receive", "emit/mod", "emit/kinds/a", "pipeline"];
        let rest = rest.iter().map(|name| format!("src/{name}.rs"));
        let rest = rest.filter(|path| files.iter().all(|(known, _)| known != path));
        let mut sources: Vec<_> =
            files.iter().map(|(path, text)| Source::new(path, text)).collect();
        sources.extend(rest.map(|path| Source::new(&path, "")));
        Tree::new(&sources)
    }

    #[test]
    fn a_forbidden_import_is_found_in_every_spelling() {
        let told = "`receive` imports `emit` (crate::emit)";
        for text in [
            "use crate::emit::Loss;",
            "use crate::{emit, model};",
            "use crate::{model::Id, emit as out};",
            "use super::emit;",
            "fn f() { crate::emit::g() }",
            "#[cfg(test)]\nmod tests {}\nuse crate::emit;",
            "#[cfg(test)]\nmod tests;\n\nuse crate::emit;",
        ] {
            let found = breaches(&tree(&[("src/receive.rs", text)]), ROOMS);
            assert!(found.len() == 1 && found[0].ends_with(told), "{text}: {found:?}");
        }
        for text in ["use crate::*;", "use crate as all;", "use super::*;"] {
            let found = breaches(&tree(&[("src/receive.rs", text)]), ROOMS);
            assert_eq!(found, ["src/receive.rs:1: `receive` imports `crate` (crate::)"], "{text}");
        }
    }

    #[test]
    fn what_is_allowed_is_no_breach() {
        let files = [
            (
                "src/receive.rs",
                "use crate::model::Id;\n#[cfg(test)]\nmod tests { use crate::emit; }",
            ),
            ("src/emit/kinds/a.rs", "use crate::emit::Loss;\nuse super::super::Loss as L;"),
            ("src/pipeline.rs", "use crate::emit::kinds::a::A;\nuse crate::emit::Loss;"),
        ];
        assert_eq!(breaches(&tree(&files), ROOMS), [""; 0]);
    }

    #[test]
    fn rooms_inside_of_a_room_have_their_own_rules() {
        let files = [("src/emit/mod.rs", "use kinds::a::A;\npub mod kinds;")];
        let found = breaches(&tree(&files), ROOMS);
        assert_eq!(
            found,
            ["src/emit/mod.rs:1: `emit` imports `emit/kinds` (crate::emit::kinds::a)"]
        );
        let lost = [Room { name: "model", imports: &[] }];
        let files = [("src/model.rs", "use crate::emit::Loss;")];
        assert_eq!(
            breaches(&tree(&files), &lost),
            ["src/model.rs:1: crate::emit belongs to no room"]
        );
    }

    #[test]
    fn circles_are_found_over_several_rooms() {
        let files = [
            ("src/receive.rs", "use crate::emit::Loss;"),
            ("src/emit/mod.rs", "use crate::model::Id;"),
            ("src/model.rs", "use crate::receive::Signal;"),
            ("src/pipeline.rs", "use crate::model::Id;"),
        ];
        assert_eq!(circles(&tree(&files), ROOMS), ["a circle: emit, model, receive"]);
        assert_eq!(circles(&tree(&files[1..]), ROOMS), [""; 0]);
    }
}
