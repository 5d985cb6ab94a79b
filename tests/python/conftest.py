"""Fixtures that several files of tests have in common."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import vl_convert

import charted
from wirespeed import cli


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Warm machines of tests are kept where no other run of them looks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def judged_charts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Whatever is drawn while a test runs: its charts are as all charts have to be. The titles of those that were."""
    found: list[str] = []
    drawn: list[str] = []

    def draw(spec: Any, *more: Any, **named: Any) -> str:
        whole = json.loads(spec) if isinstance(spec, str) else spec
        drawn.append(str(whole.get("title", "")))
        found.extend(f"{fault} (chart {whole.get('title', '')})" for fault in charted.faults(whole))
        return str(to_svg(spec, *more, **named))

    to_svg = vl_convert.vegalite_to_svg
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", draw)
    yield drawn
    assert not found, "charts that are not as charts have to be (tests/python/charted.py):\n" + "\n".join(found)


@pytest.fixture
def wirespeed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command, called with these arguments: its exit code, and what it printed on both streams."""

    def call(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["wirespeed", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return call
