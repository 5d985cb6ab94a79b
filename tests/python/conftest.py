"""Fixtures that several files of tests have in common."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from wirespeed import cli


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
