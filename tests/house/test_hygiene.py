"""What every file of the project keeps to."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import prose
import pytest
import rust

ROOT = rust.ROOT
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TABLED = [*PAGES, *sorted(p for p in (ROOT / "papers").rglob("*.md") if p.name in ("DEVIATIONS.md", "README.md"))]
"""Pages whose tables are judged."""
MOST_LINES = 100
"""Lines of a function, tests and examples included."""
TABLES = {"sound"}
"""Functions that are a table of data."""
MOST_OF_A_CELL = 30
"""Words of a cell of a table, whatever a link in it leads to."""
MOST_OF_AN_ENTRY = 150
"""Characters of an entry of the changelog."""
INVARIANTS = ROOT / "docs" / "reference" / "invariants.md"
KINDS = ("machines", "processors", "architectures", "nics", "drivers", "programs", "gpus", "microengines")
MACHINES = sorted(path for kind in KINDS for path in (ROOT / "presets" / kind).glob("*.toml"))

# Written so that this file does not hold what it looks for.
HERE = re.compile("|".join(("/" + "work/", "/" + "root/", "/" + "home/" + r"\w")))
WORDS = ("to" + "do!", "unimpl" + "emented!", "TO" + "DO", "FIX" + "ME", "XX" + "X")
UNFINISHED = re.compile(rf"\b(?:{'|'.join(WORDS)})(?!\w)")


def files(*suffixes: str) -> list[Path]:
    """Text files that are tracked, or would be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git work tree")
    found = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in found if path.is_file() and (not suffixes or path.suffix in suffixes)]


def lines_that_match(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
            for number, line in enumerate(text.splitlines(), 1)
            if pattern.search(line)
        ]
    return found


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = lines_that_match(HERE, files())
    assert not found, "paths of a machine; name them relative to the checkout:\n" + "\n".join(found)


def test_nothing_is_left_to_be_done() -> None:
    found = lines_that_match(UNFINISHED, files(".rs", ".py", ".toml", ".md", ".sh", ".j2", ".css"))
    assert not found, "unfinished; do it, or say in DEVIATIONS.md what is left out:\n" + "\n".join(found)


def rust_functions(path: Path) -> Iterator[tuple[str, int]]:
    """The functions of a file as `rustfmt` leaves it: their names and lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for at, line in enumerate(lines):
        head = re.match(r"( *)(?:pub(?:\([a-z]+\))? )?(?:const |async |unsafe |extern \"C\" )*fn (\w+)", line)
        if head is None:
            continue
        # A declaration in a trait has no body, and an empty one is on its line.
        if not line.endswith((";", "{}")):
            yield head[2], next((n for n, later in enumerate(lines[at:], 1) if later == f"{head[1]}}}"), 0)


def python_functions(path: Path) -> Iterator[tuple[str, int]]:
    """The functions of a file: their names and lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_function_is_longer_than_a_screen_or_two() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {name} has {lines} lines"
        for suffix, functions in ((".rs", rust_functions), (".py", python_functions))
        for path in files(suffix)
        for name, lines in functions(path)
        if lines > MOST_LINES and name not in TABLES
    ]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("page", TABLED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_cell_of_a_table_is_no_paragraph(page: Path) -> None:
    long = []
    for number, cell in cells(page):
        words = prose.words(cell)
        if words > MOST_OF_A_CELL:
            long.append(f"{page.relative_to(ROOT)}:{number}: {words} words: {cell[:60]}")
    assert not long, f"cells of more than {MOST_OF_A_CELL} words; make rows of them, or a section:\n" + "\n".join(long)


def test_a_deviation_is_one_sentence_a_cell() -> None:
    found = list(cells(ROOT / "DEVIATIONS.md"))
    two = [f"DEVIATIONS.md:{number}: {cell}" for number, cell in found if len(prose.sentences(cell)) > 1]
    assert len(found) > 500, "the table is no longer found"
    assert not two, "make rows of them:\n" + "\n".join(two)


def test_an_entry_of_the_changelog_is_one_line() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = text[text.index("\n## ") :].splitlines()
    long = [line for line in entries if line.startswith(" ") or len(line) > MOST_OF_AN_ENTRY]
    assert sum(line.startswith("- ") for line in entries) > 100, "entries are no longer found"
    assert not long, "one fact a line:\n" + "\n".join(long)


def cells(page: Path) -> Iterator[tuple[int, str]]:
    """Lines and texts of the cells of a page's tables."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if line.lstrip().startswith("|") and not fenced:
            yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1])


@pytest.mark.parametrize("room", rust.rooms().values(), ids=lambda room: room.name)
def test_a_crate_says_first_what_it_is(room: rust.Room) -> None:
    root = next(p for p in (room.folder / "src" / "lib.rs", room.folder / "src" / "main.rs") if p.exists())
    assert root.read_text().startswith("//! "), (
        f"{root.relative_to(ROOT)}: begin with a header: what it is, what it leaves out"
    )


@pytest.mark.parametrize("room", rust.rooms().values(), ids=lambda room: room.name)
def test_a_crate_is_tested_by_one_program_or_says_why_not(room: rust.Room) -> None:
    folder = room.folder / "tests"
    programs = {*folder.glob("*.rs"), *folder.glob("*/main.rs")} - {folder / "suite" / "main.rs"}
    without = []
    for path in sorted(programs):
        header = " ".join(line[3:].strip() for line in path.read_text().splitlines() if line.startswith("//!"))
        if "A program of its own" not in header:
            without.append(str(path.relative_to(ROOT)))
    assert not without, (
        f"{', '.join(without)}: each program of tests links everything once more; make it a module of "
        "tests/suite/main.rs, or say in its header 'A program of its own' and the reason"
    )


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_every_number_of_a_machine_has_its_source(path: Path) -> None:
    without = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        setting = re.match(r"\s*(\w+)\s*=\s*(\"[^\"]*\"|[^#]*)", line)
        if setting and re.search(r"\d", setting[2]) and setting[1] not in {"name", "preset", "processor", "model"}:
            comment = line[setting.end() :].partition("#")[2].strip()
            if len(comment) < 4:
                without.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not without, (
        "name the source in a comment on the same line, 'same' as the line above, or 'assumed' and why:\n"
        + "\n".join(without)
    )


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "DEVIATIONS.md", "CONTRIBUTING.md"])
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text()
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)#]+)", text)
    broken = [target for target in targets if not (ROOT / target).exists()]
    assert not broken, f"{name}: no such file: {', '.join(broken)}"


def test_the_code_map_has_every_room_and_no_other() -> None:
    mapped = set(re.findall(r"^\| `crates/(\w+)`", ARCHITECTURE, re.MULTILINE))
    assert mapped == set(rust.rooms())


def test_architecture_says_at_most_five_facts_of_a_room() -> None:
    section = ARCHITECTURE.partition("## What holds in each room")[2].partition("\n## ")[0]
    rooms = re.split(r"^- \*\*", section, flags=re.MULTILINE)[1:]
    assert len(rooms) > 5
    facts = {room.partition("**")[0]: len(re.findall(r"^    - ", room, re.MULTILINE)) for room in rooms}
    assert max(facts.values()) <= 5, f"at most five; the rest is in {INVARIANTS.relative_to(ROOT)}: {facts}"


def test_every_test_that_the_invariants_name_exists() -> None:
    named = set(re.findall(r"^    - `(\w+)`$", INVARIANTS.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(named) > 100, "the page of invariants names hardly any test"
    missing = sorted(named - rust.tests())
    assert not missing, f"{INVARIANTS.relative_to(ROOT)} names tests that do not exist: {', '.join(missing)}"
