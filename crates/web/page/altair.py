"""What the report's charts use of Altair, as a page has it: the same calls make the same Vega-Lite.

Altair itself takes a second to begin, and brings a schema that judges what tests have judged. A test holds that both agree.
"""

from __future__ import annotations

import copy
from typing import Any

_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal", "T": "temporal"}
_SECONDARY = ("x2", "y2")


def _plain(value: Any) -> Any:
    if isinstance(value, _Node):
        return value.to_dict()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


class _Node:
    """Settings by name."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def to_dict(self, validate: bool = True) -> dict[str, Any]:
        return {name: _plain(value) for name, value in self._settings.items()}

    def _with(self, **more: Any) -> Any:
        made = copy.copy(self)
        made._settings = {**self._settings, **more}
        return made


class _Channel(_Node):
    def __init__(self, shorthand: str, **settings: Any) -> None:
        field, _, kind = shorthand.partition(":")
        super().__init__(field=field, **({"type": _TYPES[kind]} if kind else {}), **settings)

    def axis(self, axis: Any) -> Any:
        return self._with(axis=axis)


class X(_Channel): ...


class Y(_Channel): ...


class Color(_Channel): ...


class Order(_Channel): ...


class StrokeWidth(_Channel): ...


class Axis(_Node): ...


class AxisConfig(_Node): ...


class Legend(_Node): ...


class LegendConfig(_Node): ...


class Scale(_Node): ...


class ViewConfig(_Node): ...


class InlineData(_Node): ...


class _View(_Node):
    """What can be drawn."""

    def properties(self, **settings: Any) -> Any:
        return self._with(**settings)

    def configure(self, **settings: Any) -> Any:
        return self._with(config=settings)

    def resolve_scale(self, **settings: Any) -> Any:
        return self._with(resolve={"scale": settings})

    def __add__(self, other: Any) -> Any:
        layers = self._settings["layer"] if isinstance(self, LayerChart) else [self]
        return LayerChart(layer=[*layers, other])


class LayerChart(_View): ...


class VConcatChart(_View): ...


class TopLevelMixin(_View): ...


class Chart(_View):
    def __init__(self, data: Any) -> None:
        super().__init__(data=data)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("mark_"):
            raise AttributeError(name)
        return lambda **settings: self._with(mark={"type": name.removeprefix("mark_"), **settings})

    def encode(self, **channels: Any) -> Any:
        found = dict(self._settings.get("encoding", {}))
        for name, each in channels.items():
            told = _Channel(each) if isinstance(each, str) else each
            found[name] = _Node(field=told._settings["field"]) if name in _SECONDARY else told
        return self._with(encoding=found)

    def transform_filter(self, words: str) -> Any:
        return self._with(transform=[*self._settings.get("transform", []), {"filter": words}])


def vconcat(*charts: Any, **settings: Any) -> VConcatChart:
    return VConcatChart(vconcat=list(charts), **settings)
