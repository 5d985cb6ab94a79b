"""What documents show runs: see `documents` for how blocks are found and what is only looked at."""

from __future__ import annotations

import doctest
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import documents
import smaller
import stock
import wirespeed
from documents import ROOT, Block
from wirespeed import written
from wirespeed.advise import bench

PAGES = {str(page.relative_to(ROOT)): page for page in documents.pages()}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    stock.inputs(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def clusters() -> Iterator[None]:
    yield
    smaller.end()


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_a_page_runs(name: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(PAGES[name], documents.Session(), files, tmp_path, monkeypatch)


SLOW = [
    name
    for name, page in PAGES.items()
    if any(documents.slow(command) for block in documents.blocks(page) for _, command in documents.commands(block))
]


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_what_is_slow_on_a_page_runs_too_and_keeps_what_it_promises(
    name: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = documents.Session(slow=True)
    run_page(PAGES[name], session, files, tmp_path, monkeypatch)
    if session.not_run:
        pytest.skip("; ".join(session.not_run))


def run_page(
    page: Path, session: documents.Session, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs a page in a folder of its own."""
    name = str(page.relative_to(ROOT))
    here = tmp_path / "here"
    here.mkdir()
    for file in files.iterdir():
        (here / file.name).symlink_to(file)
    (tmp_path / "shared").symlink_to(documents.SHARED)
    monkeypatch.chdir(here)
    monkeypatch.setattr(wirespeed, "run", small_run(wirespeed.run))
    monkeypatch.setattr(wirespeed, "tune", small_tune(wirespeed.tune))
    monkeypatch.setattr(wirespeed, "advise", small_advise(wirespeed.advise))
    monkeypatch.setattr(wirespeed, "size", small_size(wirespeed.size))
    monkeypatch.setattr(wirespeed, "sweep", small_sweep(wirespeed.sweep))
    for constant, few in smaller.ADVICE.items():
        monkeypatch.setattr(bench, constant, few)
    wrong = []
    found = documents.blocks(page)
    for block in found:
        if block.title and not block.why:
            (here / block.title).unlink(missing_ok=True)
            (here / block.title).write_text(f"{block.text}\n")
    try:
        for block in found:
            for line, what, problem in tried(block, session):
                wrong.append(f"{name}:{line}: {what}\n    {problem}")
            os.chdir(here)
    finally:
        documents.end_page()
    if session.not_compared:
        print("not compared:", *session.not_compared, sep="\n  ")
    assert not wrong, "\n".join(wrong)


def tried(block: Block, session: documents.Session) -> list[tuple[int, str, str]]:
    """Line, what stands there, and what is wrong with it."""
    wrong = []
    if block.language in documents.SHELL:
        session.printed, session.left = "", []
        for line, command in documents.commands(block):
            try:
                why, slow = documents.skipped(command, block), documents.slow(command)
                if why is not None or documents.is_ours(command):
                    documents.look_at(command)
                if why is None and bool(slow) == session.slow:
                    session.printed += documents.run(command)
                else:
                    session.left.append(f"{command}: {why or slow}")
                    if not session.slow or (slow and why):
                        session.not_run.append(session.left[-1])
            except Exception as e:
                wrong.append((line, command, f"{type(e).__name__}: {e}"))
        return wrong
    try:
        if block.language in documents.PRINTED:
            if session.slow:
                pass
            elif block.why or (session.left and not block.by):
                # What was not run has not been printed.
                session.not_compared.append(f"line {block.line}: {block.why or '; '.join(session.left)}")
            else:
                documents.compare(block.text, documents.error(block.by) if block.by else session.printed)
        elif session.slow:
            pass
        elif block.language == "toml" and not block.title:
            wirespeed.resolve(block.text)
        elif block.language == "python" and documents.skipped(block.text, block) is None:
            ran(block)
        elif block.language == "python":
            documents.look_at_python(block.text)
    except Exception as e:
        wrong.append((block.line, block.text.splitlines()[0], f"{type(e).__name__}: {e}"))
    return wrong


def ran(block: Block) -> None:
    """Runs a block of Python, or a session of it."""
    names: dict[str, Any] = {"__name__": "document", "wirespeed": wirespeed}
    if block.text.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, names, "document", None, block.line)
        said: list[str] = []
        doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=said.append)
        assert not said, "".join(said)
        return
    exec(compile(block.text, "document", "exec"), names)


def small_run(run: Any) -> Any:
    """`wirespeed.run` with fewer packets, unless a block says how many."""
    few = {"run.packets": 2000, "run.curve": [], "function.forward.prefixes": 5000}

    def small(*args: Any, **more: Any) -> Any:
        given = more.get("set") or {}
        own = given if isinstance(given, Mapping) else dict(map(written.parsed, given))
        return run(*args, **more | {"set": few | dict(own)})

    return small


def small_tune(tune: Any) -> Any:
    """`wirespeed.tune` with few evaluations of few packets."""

    def small(*args: Any, **more: Any) -> Any:
        few = {"run.packets": 1000, "run.warmup": 500, **dict(more.get("set") or {})}
        return tune(*args, **{"evaluations": 4, **more, "set": few})

    return small


def small_advise(advise: Any) -> Any:
    """`wirespeed.advise` with two techniques, on a machine that is filled soon."""

    def small(*args: Any, **more: Any) -> Any:
        few = {**dict(more.get("set") or {}), "mempool.size": 8192, "run.warmup": 9000, "run.search_packets": 1000}
        without = sorted({*more.get("without", ()), *smaller.UNTRIED})
        return advise(*args, **{**more, "set": few, "without": without, "packets": 1000})

    return small


def small_size(size: Any) -> Any:
    """`wirespeed.size` with trials of few packets."""

    def small(*args: Any, **more: Any) -> Any:
        few = {"run.warmup": 6000, "function.forward.prefixes": 5000, **dict(more.get("set") or {})}
        return size(*args, **{"packets": 5000, **more, "set": few})

    return small


def small_sweep(sweep: Any) -> Any:
    """`wirespeed.sweep` with a table and a warm-up as short as the command has: no machine has to settle before."""

    def small(*args: Any, **more: Any) -> Any:
        few = {"run.warmup": 2000, "function.forward.prefixes": 5000, **dict(more.get("set") or {})}
        return sweep(*args, **{**more, "set": few})

    return small


def test_fewer_than_ten_blocks_are_only_looked_at_and_each_has_its_reason() -> None:
    never, not_here, slow, total = [], [], [], 0
    for name, page in PAGES.items():
        for block in documents.blocks(page):
            if block.language in documents.PRINTED:
                continue
            shell = documents.commands(block) if block.language in documents.SHELL else [(block.line, block.text)]
            for line, text in shell:
                total += 1
                told = f"{name}:{line}: {text.splitlines()[0]}"
                if (why := documents.never_run(text, block)) is not None:
                    never.append(f"{told}: {why}")
                elif (why := documents.skipped(text, block)) is not None:
                    not_here.append(f"{told}: {why}")
                elif (why := documents.slow(text)) is not None:
                    slow.append(f"{told}: {why}")
    print(f"{len(never)} of {total} blocks are only looked at:", *never, sep="\n  ")
    print(f"{len(not_here)} more are on this machine:", *not_here, sep="\n  ")
    print(f"{len(slow)} run with `make test-slow`:", *slow, sep="\n  ")
    assert total > 150, "blocks are no longer found"
    assert len(never) < 10
    assert len(slow) < 12


def test_outputs_are_compared_but_for_a_few_and_each_of_those_has_its_reason() -> None:
    compared, left = [], []
    for name, page in PAGES.items():
        found = documents.blocks(page)
        for place, block in enumerate(found):
            if block.language in documents.PRINTED:
                why = documents.not_compared(found, place)
                (left if why else compared).append(f"{name}:{block.line}" + (f": {why}" if why else ""))
    print(f"{len(compared)} outputs are compared:", *compared, sep="\n  ")
    print(f"{len(left)} stand with their reason:", *left, sep="\n  ")
    # One more where there are a C compiler and valgrind.
    assert len(compared) >= 5
    assert len(left) <= 7
    assert all(len(why.partition(": ")[2]) > 5 for why in left)


def test_commands_stand_in_blocks_that_are_found() -> None:
    # A fence without a language would hide them.
    for page in [*PAGES.values(), *(ROOT / "docs").rglob("*.md")]:
        for fence in re.finditer(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL):
            if not fence[1]:
                assert not re.search(r"^\s*(\.venv/bin/)?wirespeed", fence[2], re.MULTILINE), f"{page}: {fence[0]}"


def test_nothing_stands_in_the_list_that_no_document_has() -> None:
    texts = [
        text.removeprefix(".venv/bin/")
        for page in PAGES.values()
        for block in documents.blocks(page)
        for text in [block.text, *(command for _, command in documents.commands(block))]
    ]
    assert set(documents.PROMISES) == set(documents.SLOW)
    for start in [*documents.ONLY_LOOKED_AT, *documents.SLOW]:
        assert any(text.startswith(start) for text in texts), start
    for part, _, _ in documents.WANTS:
        assert any(part in text for text in texts), part


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```sh\nwirespeed run forwarding --spedd 3\n```\n", "no option --spedd"),
        ("```sh\nwirespeed rum forwarding\n```\n", "no command 'rum'"),
        ("```sh\nwirespeed run nowhere.toml\n```\n", "nowhere.toml"),
        ("```sh\nwirespeed calibrate --cpu one\n```\n", "BadParameter: Input should be a valid integer"),
        ("```sh\nmake everything\n```\n", "rule"),
        ("```sh\npip install 'wirespeed[clusters]'\n```\n", "no extra wirespeed[clusters]"),
        ("```sh\ngit clone https://example.org/x && cd x\n```\n", "is not where"),
        ("```sh\nmake demos\n```\n", "make has no target"),
        ("<!-- only looked at: a test of tests -->\n```python\nwirespeed.runn()\n```\n", "no wirespeed.runn"),
        ("<!-- only looked at: a test of tests -->\n```sh\nwirespeed run x --no 3\n```\n", "no option --no"),
        ("words\n\n    wirespeed run forwarding --set run.pakets=3\n", "pakets"),
        ("```toml\n[machine]\ncores = 'x'\n```\n", "machine.cores"),
        ("```python\nwirespeed.runn()\n```\n", "runn"),
        ("```python\n>>> 1 + 1\n3\n```\n", "Expected"),
        ("```sh\npython3 -c 'raise SystemExit(3)'\n```\n", "AssertionError"),
    ],
)
def test_a_block_that_is_wrong_is_noticed(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text)
    (block,) = documents.blocks(page)
    ((_, _, problem),) = tried(block, documents.Session())
    assert said in problem


@pytest.mark.parametrize(
    ("shown", "is_it"),
    [
        ("Rate 19.3 Mpps, +18 %\n\n name   rate", True),
        ("Rate 2 Mpps, +3 % name rate\n a  1", True),
        ("Rate 2 Mpps, 3 % name rate\n a  1", False),
        ("Rate 2 Mpps, -3 % name rate\n a  1", False),
        ("…\n b  < 7\nin 2.1 ms", True),
        ("…\n b  > 7\nin 2.1 ms", False),
        ("…\n b  < 7\nin 2.1 ns", False),
        ("Rate 19.3 Mpps, +18 %\n…\n ██ b  < 1,000", True),
        ("…\n b  < 7\n", True),
        ("…\n b  7\n", False),
        ("Rate 19.3 Gbps, +18 %", False),
        ("name  speed", False),
        ("Rate 19.3 Mpps, +18 %\n b  1", False),
        ("b 1\n…\na 1", False),
        ("Rate 19.3 Mpps, +18 %, confirmed", False),
    ],
)
def test_an_output_that_is_stale_is_noticed(shown: str, is_it: bool, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```text\n{shown}\n```\n")
    (block,) = documents.blocks(page)
    session = documents.Session(printed="Rate 21.02 Mpps,\n+8 %\n\n name  rate\n a        1\n ▓▓ b  < 20\n in 3 ms\n")
    assert (not tried(block, session)) == is_it
    page.write_text(f"<!-- not compared: a test of tests -->\n```text\n{shown}\n```\n")
    (block,) = documents.blocks(page)
    assert not tried(block, session)


def outputs(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """What is wrong with a page of this text, and what of it was not compared."""
    monkeypatch.chdir(folder)
    page = folder / "page.md"
    page.write_text(text)
    session = documents.Session()
    wrong = [problem for block in documents.blocks(page) for _, _, problem in tried(block, session)]
    return wrong, session.not_compared


ONE = "```sh\nprintf 'one\\n'\n```\n"
TWO = "```sh\nprintf 'two\\n'\n```\n"
LEFT = "```sh\npip install 'wirespeed[plots]'\n```\n"


def test_an_output_is_of_the_block_of_commands_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "```text\none\n```\n"
    assert outputs(ONE + shown, tmp_path, monkeypatch) == ([], [])
    wrong, left = outputs(ONE + TWO + shown, tmp_path, monkeypatch)
    assert "shown is" in wrong[0]
    assert not left
    # What goes to a file is in the file alone.
    for command in ("printf 'one\\n' > file", "wirespeed presets ddr4-2400u > file"):
        wrong, _ = outputs(f"```sh\n{command}\n```\n```text\nddr4\n```\n", tmp_path, monkeypatch)
        assert "shown is" in wrong[0]
        assert (tmp_path / "file").read_text()


def test_a_command_that_is_not_run_leaves_out_its_own_output_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "look_at", lambda command: None)
    wrong, left = outputs(LEFT + "```text\nany\n```\n" + ONE + "```text\ntwo\n```\n", tmp_path, monkeypatch)
    assert len(wrong) == 1
    assert "shown is" in wrong[0]
    assert len(left) == 1
    assert "wants a network" in left[0]
    found = documents.blocks(tmp_path / "page.md")
    assert [documents.not_compared(found, place) is None for place in (1, 3)] == [False, True]


def test_an_error_is_printed_by_the_command_in_the_comment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def page(command: str, shown: str) -> str:
        return f"{LEFT}\n<!-- printed by: {command} -->\n```text\n{shown}\n```\n"

    monkeypatch.setattr(documents, "look_at", lambda command: None)
    said = "wirespeed: --goal fast: must be one of"
    command = "wirespeed advise forwarding --goal fast"
    assert outputs(page(command, f"{said}\n…"), tmp_path, monkeypatch) == ([], [])
    assert "shown is" in outputs(page(command, f"{said} all"), tmp_path, monkeypatch)[0][0]
    assert "ends with 0" in outputs(page("wirespeed presets", said), tmp_path, monkeypatch)[0][0]


def test_a_promise_that_is_not_kept_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "claims.json").write_text("{}")
    for files, lines, said in [
        (("claims.json", "points.csv"), (), "points.csv is not written"),
        ((), (r"\d+ reproduced",), "is not in"),
        (None, (), "is not written"),
    ]:
        with pytest.raises(AssertionError, match=said):
            documents._is_kept((files, lines), tmp_path, "nothing is reproduced")
    documents._is_kept((("claims.json",), (r"\d+ reproduced",)), tmp_path, "3 reproduced")
