"""What documents show runs: see `documents` for how blocks are found and what is only looked at."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import documents
import wirespeed
from documents import ROOT, Block

PAGES = {str(page.relative_to(ROOT)): page for page in documents.pages()}


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    documents.inputs(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def clusters() -> Iterator[None]:
    yield
    documents.end()


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_a_page_runs(name: str, stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in stock.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wirespeed, "run", small_run(wirespeed.run))
    wrong = []
    found = documents.blocks(PAGES[name])
    for block in found:
        if block.title and not block.why:
            (tmp_path / block.title).unlink(missing_ok=True)
            (tmp_path / block.title).write_text(block.text)
    for block in found:
        for line, what, problem in tried(block):
            wrong.append(f"{name}:{line}: {what}\n    {problem}")
    assert not wrong, "\n".join(wrong)


def tried(block: Block) -> list[tuple[int, str, str]]:
    """Line, what stands there, and what is wrong with it."""
    wrong = []
    if block.language in {"sh", "bash", "console"}:
        for line, command in documents.commands(block):
            try:
                if documents.is_ours(command):
                    documents.look_at(command)
                if documents.skipped(command, block) is None:
                    documents.run(command)
            except Exception as e:
                wrong.append((line, command, f"{type(e).__name__}: {e}"))
    elif block.why is None:
        try:
            if block.language == "toml" and not block.title:
                wirespeed.resolve(block.text)
            elif block.language == "python":
                ran(block)
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
        return run(*args, **more | {"set": few | dict(more.get("set") or {})})

    return small


def test_what_is_not_run_has_its_reason() -> None:
    total = left = 0
    for page in PAGES.values():
        for block in documents.blocks(page):
            for _, command in documents.commands(block) if block.language in {"sh", "bash", "console"} else []:
                total += 1
                why = documents.skipped(command, block)
                assert why is None or len(why) > 10
                left += why is not None
                assert why or documents.is_ours(command) or command.startswith("python3"), (
                    f"{page}: who runs {command!r}?"
                )
    assert total > 60, "blocks are no longer found"
    assert left < 0.4 * total, f"{left} of {total} commands are only looked at"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```sh\nwirespeed run forwarding --spedd 3\n```\n", "no option --spedd"),
        ("```sh\nwirespeed rum forwarding\n```\n", "no command 'rum'"),
        ("```sh\nwirespeed run nowhere.toml\n```\n", "nowhere.toml"),
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
    ((_, _, problem),) = tried(block)
    assert said in problem
