"""A type that is seen widely shares its name with no other: a reader who meets the name need not ask which."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import rust

TYPE = re.compile(
    r"^(?P<indent> *)(?P<seen>pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|union|trait|type) (?P<name>[A-Z]\w*)",
    flags=re.MULTILINE,
)
WIDELY = ("pub ", "pub(crate) ")
TESTS = re.compile(r"(?:^|/|_)tests(?:/|\.rs$)")

SHARED: dict[str, str] = {}
"""Names that may stand for several types, each with its reason."""


class Definition(NamedTuple):
    """Where a type is defined, and whether all of its crate sees it, or more."""

    name: str
    place: str
    widely: bool


def definitions(file: str, text: str) -> Iterator[Definition]:
    """The types of a file. Indented ones count where others see them: the rest are associated types, and types of one
    function."""
    for found in TYPE.finditer(text):
        if found["seen"] or not found["indent"]:
            line = text.count("\n", 0, found.start()) + 1
            yield Definition(found["name"], f"{file}:{line}", found["seen"] in WIDELY)


def doubles(found: Iterable[Definition]) -> dict[str, list[str]]:
    """Names of several types, one of which is seen widely: where they are."""
    by_name: dict[str, list[Definition]] = defaultdict(list)
    for each in found:
        by_name[each.name].append(each)
    return {
        name: [each.place for each in several]
        for name, several in sorted(by_name.items())
        if len(several) > 1 and any(each.widely for each in several)
    }


def test_a_type_that_is_seen_widely_shares_its_name_with_no_other() -> None:
    found = [
        each
        for room in rust.rooms().values()
        for path, text in rust.sources(room)
        if not TESTS.search(path)
        for each in definitions(f"crates/{room.name}/{path}", text)
    ]
    assert len(found) > 800, "the types are not found"
    several = doubles(found)
    new = [f"{name}: {', '.join(places)}" for name, places in several.items() if name not in SHARED]
    assert not new, "names of several types; give each the field's word for what it is:\n" + "\n".join(new)
    over = sorted(SHARED.keys() - several.keys())
    assert not over, f"of one type by now, take them out of SHARED: {', '.join(over)}"


def test_a_second_type_of_a_name_is_found() -> None:
    text = "pub(crate) enum Entry {}\nstruct Slot;\n\nimpl A for B {\n    type Entry = u8;\n}\n"
    once = list(definitions("a.rs", text))
    assert once == [Definition("Entry", "a.rs:1", True), Definition("Slot", "a.rs:2", False)]
    assert doubles(once) == {}
    again = [*once, *definitions("b.rs", "struct Entry;\nstruct Slot;\n")]
    assert doubles(again) == {"Entry": ["a.rs:1", "b.rs:1"]}, "two private ones may share theirs"
