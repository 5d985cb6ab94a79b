"""Ctrl-C while the command is being imported, and when somebody else imports the package."""

import signal
import subprocess
import sys

import pytest

HOOK = """
import os, signal, sys
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
signal.signal(signal.SIGINT, {handler})
sys.argv = [{program!r}, "--version"]
"""
MAIN = "from wirespeed.cli import main\nmain()\n"


def run(module, program, handler="signal.default_int_handler", then=MAIN):
    text = HOOK.format(module=module, program=program, handler=handler) + then
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("program", ["/usr/bin/wirespeed", "-m"])
@pytest.mark.parametrize("module", ["wirespeed.memory", "numpy", "wirespeed.result", "typer", "wirespeed.cli"])
def test_ctrl_c_while_importing_ends_with_130_and_without_a_traceback(module, program):
    ran = run(module, program)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "wirespeed: stopped\n")


def test_it_is_ignored_where_a_shell_said_so_and_left_alone_in_other_programs():
    ran = run("numpy", "wirespeed", handler="signal.SIG_IGN")
    assert ran.returncode == 0
    assert ran.stdout.startswith("wirespeed ")
    ran = run("numpy", "study.py", then="import wirespeed\n")
    assert ran.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in ran.stderr
