"""Tests the readers of Rust sources on which the checks of the layers rely."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.meta.rust_paths import exports, module_of, rooms_in
from tests.meta.sources import code

ROOMS = ("a", "b", "session")
EXPORTED = exports(
    "mod a; mod b; mod session;\n"
    "pub use session::{Request, Session, state::{self, Held as Kept}};\n"
    "use std::fmt; use fmt::session as text;\n"
    "mod inner { use super::session::Inner; }",
    (),
)


def named(text: str, file: str = "a/one.rs") -> set[str]:
    """Returns the rooms that the source of a file names."""
    return rooms_in(code(text), module_of(Path(file)), (), ROOMS, EXPORTED)


@pytest.mark.parametrize(
    "text",
    [
        "use crate::session::Session;",
        "use crate::{session::Session};",
        "use crate::{a::{b, c}, session::X};",
        "use crate::{a::{b, c,}, fmt as d, session};",
        "use {std::fmt, crate::{session as held}};",
        "use crate :: r#session :: {\n    // a comment\n    Session,\n};",
        "use crate::/* a comment */session::Session;",
        '/* a comment /* in another */ of " */ use crate::session::Session; // "',
        "fn f() { crate::session::x() }",
        "fn f() -> Result<crate::session::X, ()> { todo!() }",
        "struct S(pub (crate::session::X));",
        "macro_rules! m { () => { $crate::session::x() } }",
        "#[cfg(test)]\nmod tests { mod inner {} }\nuse crate::session::Session;",
        "#[cfg(test)]\nuse std::fmt; mod tests { use crate::session::X; }",
        "const Q: char = '\"'; use crate::session::Session; const P: char = '\"';",
        "const Q: u8 = b'\"'; use crate::session::Session; const P: u8 = b'\"';",
        "const Q: [char; 2] = ['\\'', '\"']; use crate::session::X; const P: char = '\"';",
        "const Q: [char; 2] = ['\\\\', '\"']; use crate::session::X; const P: char = '\"';",
        "fn f<'a>(x: &'a str, y: &'a str) -> char { crate::session::x('\"', '\"') }",
    ],
)
def test_a_path_from_the_root_names_its_room(text: str) -> None:
    assert named(text) - {"a"} == {"session"}


@pytest.mark.parametrize(
    "text",
    [
        "use crate::Session;",
        "use crate::{b::X, Session as Other};",
        "fn f(x: &crate::Request) {}",
        "use crate::state::X;",
        "use super::super::Kept;",
    ],
)
def test_a_name_that_the_root_imports_names_the_room_of_its_origin(text: str) -> None:
    assert named(text) - {"b"} == {"session"}
    assert named("use crate::{fmt, Inner, Unknown};") == set()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a/one.rs", "use super::super::session::Session;"),
        ("a/one.rs", "use super::{super::session::Session};"),
        ("a/one.rs", "fn f() { super::super::session::x() }"),
        ("a/one.rs", "use self::super::super::session;"),
        ("a/one/two.rs", "use super::super::super::session::X;"),
        ("a/mod.rs", "use super::session::X;"),
        ("a.rs", "use super::session::X;"),
        ("a.rs", "use super::Session;"),
        ("a.rs", "mod inner { use super::super::session::X; }"),
        ("a.rs", "mod inner { mod more { fn f() {} } use super::super::session::X; }"),
        ("a.rs", "mod inner { fn f() {} } use super::session::X;"),
    ],
)
def test_a_path_that_leaves_its_room_by_super_names_the_other(file: str, text: str) -> None:
    assert named(text, file) == {"session"}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a/one.rs", "use super::session::X; use self::session::Y;"),
        ("a.rs", "mod inner { use super::session::X; }"),
        ("a/one.rs", "pub(in crate::a) fn f() {} pub(super) fn g() {} pub(crate) mod h;"),
        ("a/one.rs", "use session::X; use other::session::Y; use ::session::Z;"),
        ("a/one.rs", "fn f(&self) { self.session; Self::session() }"),
        ("a/one.rs", 'const A: &str = "\\"use crate::session::X;"; // crate::session'),
        ("a/one.rs", 'const A: &[u8] = br#""crate::session::X"#; /* /* */ crate::session */'),
        ("a/one.rs", "#[cfg(test)]\n#[allow(unused)]\nmod tests { fn f() {} use crate::session; }"),
        ("a/one.rs", "type F = impl Sized + use<'_>;"),
    ],
)
def test_a_path_that_stays_in_its_room_names_no_other(file: str, text: str) -> None:
    assert named(text, file) - {"a"} == set()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a/one.rs", "use crate::*;"),
        ("a.rs", "use super::*;"),
        ("a/one.rs", "use super::super as root; fn f() { root::session::x() }"),
        ("a/one.rs", "use crate::{self as root};"),
        ("a/one.rs", "macro_rules! m { ($room:ident) => { $crate::$room::x() } }"),
    ],
)
def test_a_path_to_all_rooms_names_each(file: str, text: str) -> None:
    assert named(text, file) == set(ROOMS)
    assert named("use super::*; use self::{inner::*, two as three};") == {"a"}


@pytest.mark.parametrize(
    ("text", "rooms"),
    [
        ("use super::super::bulk::Care;", {"bulk"}),
        ("use crate::classes::{bulk::Care};", {"bulk"}),
        ("use crate::Care;", {"bulk"}),
        ("use crate::classes::Care;", {"bulk"}),
        ("use super::super::super::options::bulk;", set()),
        ("use crate::classes as above;", {"bulk", "statement"}),
        ("use crate::*;", {"bulk", "statement"}),
    ],
)
def test_rooms_of_a_folder_are_named_from_its_files(text: str, rooms: set[str]) -> None:
    inside = ("classes",)
    exported = exports("mod classes; use classes::Care;", ())
    exported |= exports("mod bulk; pub use self::bulk::*;", inside)
    module = module_of(Path("classes/statement/prepared.rs"))
    assert rooms_in(text, module, inside, ("bulk", "statement"), exported) == rooms
    options = rooms_in("use super::classes::bulk::Care;", ("options",), (), ("classes",), {})
    assert options == {"classes"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x('\"', y, '\"')", "x y"),
        ("x('\\'', y, b'\\'')", "x y"),
        ("x('\\\\', \"z\", y)", "x y"),
        ("x('\\u{1f600}', '\\x41', '/', y) // z", "x y"),
        ("fn x<'a, 'b>(y: &'a str)", "fn x a b y a str"),
        ("'x: loop { break 'x }", "x loop break x"),
        ('x("\\\\", y, r#"z"z"#, b"z", c"z", cr"z\\", br##"z"#"##)', "x y"),
        ("x /* z /* z */\n z */ y", "x y"),
        ("r#type = 'r'", "r type"),
    ],
)
def test_code_has_no_comments_strings_and_chars(text: str, words: str) -> None:
    assert re.findall(r"\w+", code(text)) == words.split()
    assert code(text).count("\n") == text.count("\n")
