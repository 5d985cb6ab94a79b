"""Begins Python in the page's worker: libraries that no page needs are empty there."""

import importlib.abc
import importlib.machinery
import sys
import types

EMPTY = ("rich", "numpy", "pyarrow", "typer", "click", "yaml", "psutil", "fcntl", "resource", "termios", "pty")


class _Nothing(type):
    """A class that has every attribute, and is called for another of its kind."""

    def __getattr__(cls, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing(name)

    def __or__(cls, other: object) -> object:
        return cls

    __ror__ = __or__

    def __getitem__(cls, _: object) -> object:
        return cls


def _nothing(name: str) -> object:
    return _Nothing(name, (), {"__init__": lambda self, *_, **__: None, "__call__": lambda self, *_, **__: None, "__class_getitem__": classmethod(lambda cls, _: cls)})


class _Empty(types.ModuleType):
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _nothing(name)
        setattr(self, name, found)
        return found


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] not in EMPTY:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return _Empty(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, _Finder())
sys.path.insert(0, "/app")
