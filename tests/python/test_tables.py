"""Tables reach polars, pandas and pyarrow without copying, and results are read back from folders."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import vl_convert

import summaries
import wirespeed
from wirespeed.result import Comparison
from wirespeed.same_traffic import Differing
from wirespeed.stored import TABLES
from wirespeed.tables import Column, Rows, Table

SOURCE = pa.table({"packet": pa.array(range(1000), pa.uint64()), "sojourn_ns": [float(i) for i in range(1000)]})


def test_polars_pandas_and_pyarrow_read_the_same_table() -> None:
    table = Table("packets", SOURCE)
    assert pa.table(table).equals(SOURCE)
    assert pl.DataFrame(table)["sojourn_ns"].sum() == 499_500.0
    assert pd.DataFrame.from_arrow(table)["packet"].tolist() == list(range(1000))
    assert table.to_polars().equals(pl.DataFrame(table))
    assert table.to_pandas().equals(pd.DataFrame.from_arrow(table))
    assert table.to_arrow().equals(SOURCE)


def test_a_table_is_written_as_its_name_ends(tmp_path: Path) -> None:
    columns: dict[str, Column] = {"name": "string", "mpps": "double", "packets": "int64"}
    table = Table("made", Rows(columns, [{"name": "a, b", "mpps": 1.5, "packets": 3}, {"name": "c", "mpps": None}]))
    assert pa.parquet.read_table(table.write(tmp_path / "t.parquet")).equals(table.to_arrow())
    assert table.write(tmp_path / "t.csv").read_text() == '"name","mpps","packets"\n"a, b",1.5,3\n"c",,\n'
    with pa.ipc.open_file(table.write(tmp_path / "t.arrow")) as file:
        assert file.read_all().equals(table.to_arrow())
    with pytest.raises(wirespeed.InputError, match=r"t\.xlsx: a table is written as \.parquet, \.csv, \.arrow"):
        table.write(tmp_path / "t.xlsx")
    assert Table("none", Rows(columns, [])).to_arrow().column_names == list(columns)


def address(array: pa.ChunkedArray) -> int:
    return array.chunk(0).buffers()[1].address


def test_the_data_is_not_copied() -> None:
    read = pa.table(Table("packets", SOURCE))
    assert address(read["sojourn_ns"]) == address(SOURCE["sojourn_ns"])
    polars = pl.DataFrame(Table("packets", SOURCE))["sojourn_ns"].to_numpy(allow_copy=False)
    assert polars.ctypes.data == address(SOURCE["sojourn_ns"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    summaries.keep(tmp_path, summaries.sound(), SOURCE)
    return tmp_path


def test_a_written_result_is_read_with_its_tables(folder: Path) -> None:
    result = wirespeed.read(folder)
    assert result.run_id == "1f0c2b3a4d5e6f70"
    assert not result.partial
    assert result.scenario == "seed = 1\n"
    with result.operand() as operand:
        assert operand == str(folder)
    for name in TABLES:
        assert pl.DataFrame(getattr(result, name)).columns == [name, "value"]


def test_a_read_result_makes_its_report_and_view(folder: Path) -> None:
    result = wirespeed.read(folder)
    written = result.report(folder / "again.html")
    assert "Does not keep wire speed" in written.read_text(encoding="utf-8")
    assert "9.07 µs" in result._repr_html_()
    assert "Does not keep wire speed" in repr(result)


def test_a_folder_without_a_result_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(wirespeed.InputError, match="holds no result of wirespeed"):
        wirespeed.read(tmp_path)
    (tmp_path / "summary.json").write_text("{", encoding="utf-8")
    (tmp_path / "scenario.toml").write_text("", encoding="utf-8")
    with pytest.raises(wirespeed.InputError, match="is not JSON"):
        wirespeed.read(tmp_path)


def test_a_comparison_names_changes_and_unequal_traffic() -> None:
    metrics = [
        {"metric": "p99", "unit": "ns", "a": 1e3, "b": 1.1e3, "change_pct": 10.0, "half_width_pct": 2.0,
         "significant": True, "better": False},
        {"metric": "loss", "unit": "", "a": 0.0, "b": 0.01, "change_pct": None, "half_width_pct": None,
         "significant": True, "better": False},
        {"metric": "ring", "unit": "ns", "a": 10.0, "b": 10.1, "change_pct": 1.0, "half_width_pct": 3.0,
         "significant": False, "better": None},
        {"metric": "copy", "unit": "ns", "a": 0.0, "b": 0.0, "change_pct": 0.0, "half_width_pct": 0.0,
         "significant": False, "better": None},
    ]  # fmt: skip
    load = [Differing("traffic.load", "0.5", "0.3")]
    pair = Comparison(json.dumps({"a": {"name": "<b>"}, "b": {}, "identical_traffic": False, "metrics": metrics}), load)
    assert pair.rows() == [
        ("p99", "1.00 µs", "1.10 µs", "+10 ± 2.0 %", "worse"),
        ("loss", "0", "1.00 %", "from zero", "worse"),
        ("ring", "10.0 ns", "10.1 ns", "+1.0 ± 3.0 %", "noise"),
    ]
    assert "p99 +10 ± 2.0 %" in repr(pair)
    assert "did not see the same traffic" in pair._repr_html_()
    assert "<td><b>" not in pair._repr_html_().replace("<b>The runs", "")


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_a_library_that_is_missing_is_named_with_what_to_install(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install 'wirespeed\[{library}\]'"):
        getattr(Table("packets", SOURCE), f"to_{library}")()


@pytest.mark.parametrize("what", ["sojourn", "rate over load", "sojourn over load"])
def test_a_result_is_plotted_without_the_pages_colours(folder: Path, what: str) -> None:
    drawn = wirespeed.read(folder).plot(what)
    assert "var(--" not in drawn.to_json()
    assert vl_convert.vegalite_to_svg(drawn.to_dict()).startswith("<svg")


def test_a_plot_that_a_run_has_not_names_those_that_it_has(folder: Path) -> None:
    with pytest.raises(wirespeed.InputError, match=r"this run has sojourn.*did you mean `sojourn`"):
        wirespeed.read(folder).plot("sojorn")
