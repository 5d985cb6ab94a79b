"""Who may import whom, who may do I/O, who may look at the clock.

The rules are those of ARCHITECTURE.md, "Who may import whom". A room that is not in the table has no place yet: give
it one there and here, in the commit that adds it.
"""

from __future__ import annotations

import re

import pytest
import rust

# What a room may import beside `units`, which all may. Those that the later rooms have are here already.
MAY_IMPORT: dict[str, set[str]] = {
    "units": set(),
    "state": set(),
    "packet": set(),
    "probe": {"state"},
    "engine": set(),
    "stats": set(),
    "queueing": set(),
    "control": set(),
    "traffic": {"packet", "engine", "state"},
    "functions": {"packet", "probe", "stats", "state"},
    "machine": {"packet", "probe", "engine", "stats", "state"},
    "policy": {"control", "queueing"},
    "sim": {
        "state",
        "packet",
        "probe",
        "engine",
        "stats",
        "queueing",
        "control",
        "traffic",
        "functions",
        "machine",
        "policy",
    },
    "studies": {"packet", "probe", "engine", "stats", "queueing", "traffic", "functions", "machine", "sim"},
    "host": {"control"},
    "daemon": {"host", "control", "policy", "fakehost"},
    "fakehost": {"host", "sim"},
    "router": {"packet", "probe", "functions", "traffic"},
    "calibrate": set(),
    "web": {"sim", "traffic"},
}
SEES_ALL = "py"

# What tests may import beyond that: an engine is judged by the closed forms it must meet.
TESTS_MAY_IMPORT: dict[str, set[str]] = {"engine": {"queueing", "stats"}}

# Rooms at the edge of the world. Elsewhere a function of bytes is wanted, which tests and fuzzers can call.
MAY_DO_IO = {"traffic", "host", "daemon", "py", "fakehost", "router", "calibrate"}
# The router forwards real packets and measures their delay; the daemon acts on a real machine.
MAY_SEE_CLOCK = {"daemon", "router"}

# Where we deviate: file, and why. DEVIATIONS_PAGE has each for readers.
DEVIATIONS_PAGE = "docs/design/seams.md"
IO_EXEMPT: dict[str, str] = {
    "sim/src/scenario/own_machine.rs": "reads the machine and the parts that a scenario names, and nothing else",
    "sim/src/scenario/own_part.rs": "reads the DRAM part that a scenario names, and nothing else",
    "sim/src/answer/tables.rs": "writes results, and nothing else: one writer for Python, benchmarks and others",
}
CLOCK_EXEMPT: dict[str, str] = {
    "fakehost/src/fuse.rs": "the interface of file systems has times of files, of which none is read",
    "host/src/vpp.rs": "gives up after half a second on a segment that changes all the while",
    "py/src/lib.rs": "tells progress ten times a second, however fast the host is",
    "py/src/warm_folder.rs": "says which warm machine on disk was used last; which one goes changes no result",
    "sim/src/run/clock.rs": "the clock of `wall_s`, and what stands in its place where a host has none",
    "sim/src/run/mod.rs": "what the host took (wall_s) stands beside the result; nothing simulated depends on it",
}

GLOBAL_EXEMPT: dict[str, str] = {
    "traffic/src/page_files.rs": "a page's files by name, in place of a file system; of browsers alone",
}

IO = re.compile(
    r"\bstd::(?:fs|process|os)\b|\bstd::net::(?:Tcp|Udp)\w*|\b(?:File|OpenOptions)::|\b(?:Tcp|Udp)(?:Stream|Listener|Socket)\b"
    r"|\benv::(?:var|args)\b|\be?print(?:ln)?!|\bdbg!"
)
CLOCK = re.compile(r"\b(?:Instant|SystemTime)\b|\bthread::sleep\b")
GLOBAL = re.compile(
    r"\bstatic\s+mut\b|\bthread_local!|\blazy_static!|"
    r"^\s*(?:pub(?:\(\w+\))?\s+)?static\s+\w+\s*:[^=]*\b(?:Mutex|RwLock|Atomic\w+|Cell|RefCell|OnceLock|OnceCell|LazyLock|LazyCell)\b",
    re.MULTILINE,
)


@pytest.mark.parametrize("room", rust.rooms().values(), ids=lambda room: room.name)
def test_a_room_imports_only_what_it_may(room: rust.Room) -> None:
    if room.name == SEES_ALL:
        return
    assert room.name in MAY_IMPORT, f"crates/{room.name} is in no row of the import table: add it, there and here"
    allowed = MAY_IMPORT[room.name] | {"units"}
    forbidden = sorted(room.uses - allowed)
    assert not forbidden, (
        f"crates/{room.name}/Cargo.toml imports {', '.join(forbidden)}; "
        f"it may import {', '.join(sorted(allowed))} (ARCHITECTURE.md, who may import whom)"
    )
    tests = allowed | TESTS_MAY_IMPORT.get(room.name, set())
    forbidden = sorted(room.tests_use - tests)
    assert not forbidden, (
        f"tests of crates/{room.name} import {', '.join(forbidden)}; they may import {', '.join(sorted(tests))}"
    )


def test_nobody_sees_py() -> None:
    seen = sorted(room.name for room in rust.rooms().values() if SEES_ALL in room.uses | room.tests_use)
    assert not seen, f"{', '.join(seen)}: nobody imports py"


def test_functions_and_machine_meet_only_in_sim() -> None:
    # The simulator comes to the daemon by a feature alone (`--simulate`): what sets a machine can be built without it.
    graph = {name: room.uses - room.optional for name, room in rust.rooms().items()}

    def reaches(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for next_one in graph.get(todo.pop(), ()):
                if next_one not in seen:
                    seen.add(next_one)
                    todo.append(next_one)
        return seen

    both = {name for name in graph if {"functions", "machine"} <= reaches(name) | {name}}
    assert both <= {"sim", "studies", "fakehost", "web", SEES_ALL}
    assert not {"sim", "machine"} & reaches("daemon"), "the daemon sets machines without a simulator"


def test_units_links_only_what_reads_quantities() -> None:
    assert rust.rooms()["units"].outside == {"serde", "schemars"}


@pytest.mark.parametrize("room", rust.rooms().values(), ids=lambda room: room.name)
def test_only_the_edge_does_io(room: rust.Room) -> None:
    if room.name not in MAY_DO_IO:
        none(room, IO, IO_EXEMPT, "does I/O: take bytes or a reader, and let the edge open files")


@pytest.mark.parametrize("room", rust.rooms().values(), ids=lambda room: room.name)
def test_only_the_daemon_sees_the_wall_clock(room: rust.Room) -> None:
    if room.name not in MAY_SEE_CLOCK:
        none(room, CLOCK, CLOCK_EXEMPT, "looks at the wall clock: simulated time is units::Ps")


@pytest.mark.parametrize("room", rust.rooms().values(), ids=lambda room: room.name)
def test_no_room_has_global_state(room: rust.Room) -> None:
    none(room, GLOBAL, GLOBAL_EXEMPT, "has global state: pass it as an argument")


def none(room: rust.Room, pattern: re.Pattern[str], exempt: dict[str, str], why: str) -> None:
    found = []
    for path, text in rust.sources(room):
        if f"{room.name}/{path}" not in exempt:
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start() + 1) + 1
                found.append(f"crates/{room.name}/{path}:{line}: {match[0].strip()}")
    assert not found, "\n".join([f"crates/{room.name} {why}", *found])


def test_exemptions_are_still_needed() -> None:
    for exempt, pattern in ((IO_EXEMPT, IO), (CLOCK_EXEMPT, CLOCK), (GLOBAL_EXEMPT, GLOBAL)):
        for path in exempt:
            file = rust.ROOT / "crates" / path
            text = rust.without_tests(rust.without_comments(file.read_text())) if file.exists() else ""
            assert pattern.search(text), f"{path} needs no exemption any more: remove it here and in {DEVIATIONS_PAGE}"


def test_readers_find_each_exemption() -> None:
    page = (rust.ROOT / DEVIATIONS_PAGE).read_text(encoding="utf-8")
    assert not [path for path in (*IO_EXEMPT, *CLOCK_EXEMPT, *GLOBAL_EXEMPT) if f"`{path}`" not in page]


def test_what_stands_behind_modules_of_tests_is_read() -> None:
    text = "#[cfg(test)]\nmod a_tests;\nmod b;\n\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\nfn d() {}\n"
    assert rust.without_tests(text).split() == ["mod", "b;", "fn", "d()", "{}"]
    assert rust.without_tests(text).count("\n") == text.count("\n"), "faults are named by their lines"
