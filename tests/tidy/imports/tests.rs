use super::*;

/// What a file of module `a::b` names, one a line.
fn check(text: &str, expected: &[&str]) {
    let files = [
        Source::new("src/a/b.rs", text),
        Source::new("src/a/mod.rs", "pub mod b;\nmod c { }\n#[cfg(test)]\nmod sample;"),
        Source::new("src/a/b/child.rs", ""),
        Source::new("src/lib.rs", "mod a;\nmod emit;\nmod model;"),
        Source::new("src/emit.rs", ""),
        Source::new("src/model/mod.rs", ""),
    ];
    let tree = Tree::new(&files);
    let of_file = tree.named().filter(|(path, _)| *path == "src/a/b.rs");
    let shown = of_file.map(|(_, named)| match &named.what {
        What::Ours(path) => format!("{} crate::{}", named.line, path.join("::")),
        What::Theirs(path) => format!("{} {}", named.line, path.join("::")),
    });
    assert_eq!(shown.collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn imports_are_recognised_in_every_spelling() {
    check("use crate::emit::Loss;", &["1 crate::emit::Loss"]);
    check(
        "use crate::{\n    emit,\n    model::{self, id::{TraceId, SpanId as S}},\n};",
        &[
            "1 crate::emit",
            "1 crate::model",
            "1 crate::model::id::TraceId",
            "1 crate::model::id::SpanId",
        ],
    );
    check(
        "pub(crate) use crate::emit as out;\nfn f() { out::g(); }",
        &["1 crate::emit", "2 crate::emit::g"],
    );
    check("use super::super::emit;\nuse super::c::X;", &["1 crate::emit", "2 crate::a::c::X"]);
    check(
        "fn f() -> crate::emit::X { super::super::emit::g::<u8>() }",
        &["1 crate::emit::X", "1 crate::emit::g"],
    );
    check(
        "use crate::*;\nuse crate as root;\nfn f() { root::emit::g() }",
        &["1 crate::*", "2 crate::", "3 crate::emit::g"],
    );
    check(
        "use spanscore_emit;\nuse ::std::{fs, io::{self, Read as _}};",
        &["1 crate::emit", "2 std::fs", "2 std::io", "2 std::io::Read"],
    );
    check(
        "mod child;\nuse child::X;\nfn f() { child::g() }",
        &["2 crate::a::b::child::X", "3 crate::a::b::child::g"],
    );
    check(
        "use std::time::Instant as Clock;\nfn f() { Clock::now() }",
        &["1 std::time::Instant", "2 std::time::Instant::now"],
    );
    check(
        "use self::child::X;\nmod child;\nfn f(x: X) { X::new() }",
        &["1 crate::a::b::child::X", "3 crate::a::b::child::X::new"],
    );
}

#[test]
fn modules_in_place_have_their_own_names() {
    check(
        "mod inner {\n    use super::super::super::emit;\n    use super::X;\n}",
        &["2 crate::emit", "3 crate::a::b::X"],
    );
    check(
        "use crate::emit;\nmod inner {\n    fn f() { emit::g() }\n}",
        &["1 crate::emit", "3 emit::g"],
    );
}

#[test]
fn what_is_no_import_is_passed_over() {
    check("// use crate::emit;\nfn f() { g(\"crate::emit::X\") }", &[]);
    check(
        "#[cfg(test)]\nmod tests {\n    use crate::emit;\n}\nuse crate::model;",
        &["5 crate::model"],
    );
    check("pub(in crate::a) fn f() -> impl Sized + use<> {}", &[]);
    check("fn used(because: u8) -> u8 { because }", &[]);
}

#[test]
fn arrows_lead_from_module_to_module() {
    let files = [
        Source::new("src/lib.rs", "pub mod a;\npub mod b;"),
        Source::new("src/a/mod.rs", "mod x;\nuse crate::b::deep::Thing;\nfn f() { x::g() }"),
        Source::new("src/a/x.rs", "use super::f;\nuse std::fs;"),
        Source::new("src/b.rs", "mod deep;\n#[cfg(test)]\nmod helper;\nuse crate::nowhere;"),
        Source::new("src/b/deep.rs", ""),
        Source::new("src/b/helper.rs", "use crate::a;"),
    ];
    let shown = |path: &Path| path.join("::");
    let arrows = Tree::new(&files)
        .arrows()
        .map(|arrow| format!("{} {} -> {}", arrow.place, shown(&arrow.from), shown(&arrow.to)))
        .collect::<Vec<_>>();
    assert_eq!(
        arrows,
        [
            "src/a/mod.rs:2 a -> b::deep",
            "src/a/mod.rs:3 a -> a::x",
            "src/a/x.rs:1 a::x -> a",
            "src/b.rs:4 b -> ",
        ]
    );
}
