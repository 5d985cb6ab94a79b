"""The commands: one file each, alike, and options from the fields of a dataclass."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from wirespeed import cli, commands
from wirespeed.commands.fields import spread
from wirespeed.commands.options import Traffic

NAMES = [each.name for each in pkgutil.walk_packages(commands.__path__, "wirespeed.commands.")]
MODULES = [importlib.import_module(name) for name in NAMES]
COMMANDS = [module for module in MODULES if hasattr(module, "answer")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Traffic):
    """A field without a default behind fields with one, of which some are another module's."""

    name: Annotated[str, typer.Argument()]
    often: Annotated[int, typer.Option("--often", min=1)] = 2


def test_fields_are_options_and_arrive_as_one_struct() -> None:
    app, seen = typer.Typer(), []

    @app.command()
    @spread
    def answer(given: Options) -> int:
        """Say."""
        seen.append(given)
        return 0

    done = CliRunner().invoke(app, ["a", "--often", "3", "--seed", "7"])
    assert (done.exit_code, seen) == (0, [Options(name="a", often=3, seed=7)])
    assert CliRunner().invoke(app, ["a", "--often", "0"]).exit_code == 2
    assert CliRunner().invoke(app, []).exit_code == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen[0].often = 4


def test_every_command_is_there_and_has_its_options_as_one_frozen_struct() -> None:
    def count(group: Any) -> int:
        return sum(count(each) for each in group.commands.values()) if hasattr(group, "commands") else 1

    whole = typer.main.get_command(cli.app)
    assert count(whole) == len(COMMANDS)
    for module in COMMANDS:
        options = getattr(module, "Options", None)
        taken = inspect.signature(module.answer).parameters
        assert list(taken) == ([each.name for each in dataclasses.fields(options)] if options else []), module
        assert options is None or options.__dataclass_params__.frozen, module


def test_a_command_does_not_wait_for_what_it_does_not_use() -> None:
    code = "import sys, wirespeed.cli; print([each for each in ('altair', 'optuna', 'scipy') if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_command_does_not_load_the_others() -> None:
    code = (
        "import sys; from wirespeed import cli; cli.app(['--version'], standalone_mode=False);"
        "print([each for each in sys.modules if each.startswith('wirespeed.commands.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['wirespeed.commands.exits', 'wirespeed.commands.output']"
