"""Modules of a crate make no import circle, and each begins with what it is.

A reader of a module needs those below it and no other.

A module and those inside it are one story: what a child sees of its parent is no arrow. Between rooms of `sim` arrows
go one way along the road from a scenario to its answer.
"""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter

import modules as listed
import pytest
import rust

ROAD = ("scenario", "load", "server", "run", "answer")

# `crate::a::b`, `super::a`, and what a group in braces adds to them.
PATH = re.compile(r"\b(crate|super(?:::super)*)((?:::\w+)*)(?:::\{([^{}]*)\})?")


def modules(room: rust.Room) -> dict[str, str]:
    """Text of each module by its path."""
    found = {}
    for path, text in rust.sources(room):
        name = path.removeprefix("src/").removesuffix(".rs").removesuffix("/mod").replace("/", "::")
        if name not in ("lib", "main") and not name.endswith("_tests") and not name.endswith("::tests"):
            found[name] = text
    return found


def arrows(room: rust.Room) -> dict[str, set[str]]:
    """Which modules each one imports from, by the deepest one that a path names."""
    texts = modules(room)
    graph: dict[str, set[str]] = {}
    for module, text in texts.items():
        graph[module] = set()
        for root, steps, group in PATH.findall(text):
            base = [] if root == "crate" else module.split("::")[: -root.count("super")]
            ends = [name.split()[0].split("::") for name in group.split(",") if name.strip()] if group else [[]]
            for end in ends:
                path = [*base, *steps.split("::")[1:], *end]
                named = ("::".join(path[:n]) for n in range(len(path), 0, -1))
                if (to := next((name for name in named if name in texts), None)) is not None:
                    graph[module].add(to)
    return {m: {to for to in seen if not f"{m}::".startswith(f"{to}::")} for m, seen in graph.items()}


@pytest.mark.parametrize("name", ["sim", "studies", "machine"])
def test_modules_make_no_import_circle(name: str) -> None:
    graph = arrows(rust.rooms()[name])
    assert sum(map(len, graph.values())) > len(graph) / 2, "too few arrows were seen"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_road_through_the_simulator_goes_one_way() -> None:
    graph = arrows(rust.rooms()["sim"])
    assert {module.split("::")[0] for module in graph} == set(ROAD)
    for module, seen in graph.items():
        after = set(ROAD[ROAD.index(module.split("::")[0]) + 1 :])
        assert not {to for to in seen if to.split("::")[0] in after}, module


def test_studies_never_see_the_server() -> None:
    for path, text in rust.sources(rust.rooms()["studies"]):
        assert not re.search(r"\bsim::(?:\{[^}]*\b)?server\b", text), path


@pytest.mark.parametrize("room", rust.rooms().values(), ids=lambda room: room.name)
def test_every_module_begins_with_a_header(room: rust.Room) -> None:
    without = [name or "its root" for name, header in listed.of_crate(room).items() if not header]
    assert not without, f"crates/{room.name}: begin with `//! ` and one sentence: {', '.join(without)}"


def test_every_python_module_begins_with_a_docstring() -> None:
    without = [name for name, header in listed.of_python().items() if not header]
    assert not without, f"python/wirespeed: {', '.join(without)}"


def test_the_list_of_modules_is_not_stale() -> None:
    assert listed.PAGE.read_text() == listed.page(), "docs/reference/modules.md is stale: run `make modules`"
