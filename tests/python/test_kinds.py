"""Captures and prefix tables are told apart by their first bytes, and one for the other is an error."""

from __future__ import annotations

import gzip
import lzma
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

import stock
from wirespeed import InputError, cli, kinds

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
PCAP = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
MRT = struct.pack(">IHHI", 1_000_000_000, 13, 1, 4) + b"peer"


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (PCAP, "capture"),
        (struct.pack(">I", 0xA1B23C4D) + PCAP[4:], "capture"),
        (struct.pack("<I", 0xA1B2CD34) + PCAP[4:], "capture"),
        (b"\x0a\x0d\x0d\x0a" + bytes(24), "capture"),
        (b"192.0.2.0/24 3\n", "prefix table"),
        (b"\r\n# a list\n; of prefixes\n2001:db8::/32\r\n", "prefix table"),
        (MRT, "prefix table"),
        (MRT + MRT, "prefix table"),
        # A record of updates, a length that leads nowhere, other texts, nothing.
        (struct.pack(">IHHI", 1_000_000_000, 16, 4, 4) + b"open" + MRT, None),
        (MRT + b"no header here", None),
        (b"R 1f40\nW 1f80\n", None),
        (b"# only a comment\n", None),
        (b"", None),
        (bytes(200), None),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, stock.compressed])
def test_a_file_is_told_by_its_first_bytes(head: bytes, kind: str | None, pack: object, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(pack(head))  # type: ignore[operator]
    assert kinds.of(file) == kind


def test_what_is_broken_not_there_or_a_pipe_is_left_to_the_readers(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(PCAP * 100)[:20])
    os.mkfifo(tmp_path / "pipe")
    for name in ("broken.gz", "nowhere", "pipe", "."):
        assert kinds.of(tmp_path / name) is None


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, stock.compressed])
@pytest.mark.parametrize("at", [6, 10, 24, 40])
def test_a_damaged_stream_is_left_to_the_readers(pack: Any, at: int, tmp_path: Path) -> None:
    packed = bytearray(pack(PCAP + bytes(range(256)) * 20))
    packed[at : at + 4] = b"\xff" * 4
    file = tmp_path / "damaged"
    file.write_bytes(packed)
    assert kinds.of(file) in (None, "capture")


def test_a_capture_with_a_damaged_stream_is_an_error_of_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = bytearray(gzip.compress(PCAP * 100))
    packed[10:14] = b"\xff" * 4
    (tmp_path / "a.pcap.gz").write_bytes(packed)
    assert kinds.of(tmp_path / "a.pcap.gz") is None
    monkeypatch.setattr(sys, "argv", ["wirespeed", "run", "forwarding", "--capture", str(tmp_path / "a.pcap.gz")])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == cli.EXIT_INPUT
    assert "a.pcap.gz" in capsys.readouterr().err


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not there: no real files are told apart")
def test_real_files_are_never_taken_for_the_other() -> None:
    found = {file.name: kinds.of(file) for where in ("tables", "traces") for file in (DATA / where).iterdir()}
    for name, kind in found.items():
        is_table = (DATA / "tables" / name).exists()
        assert kind in (None, "prefix table" if is_table else "capture"), name
    assert sum(kind == "capture" for kind in found.values()) >= 4
    assert sum(kind == "prefix table" for kind in found.values()) >= 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["run", "forwarding", "--capture", "rib.txt"],
            "--capture rib.txt: is a prefix table, not a capture: --capture",
        ),
        (["run", "forwarding", "--table", "a.pcap"], "--table a.pcap: is a capture, not a prefix table: --table and"),
        (["advise", "forwarding", "--capture", "rib.txt", "--table", "a.pcap"], "--capture and --table swapped?"),
        (["sweep", "forwarding", "--vary", "traffic.load=0.1", "--table", "a.pcap"], "--table and --capture swapped?"),
        (["predict", "forwarding", "--capture", "rib.txt"], "swapped?"),
        (["slices", "--table", "a.pcap"], "swapped?"),
        (["tune", "forwarding", "--knob", "nic.burst=8,16", "--table", "a.pcap"], "swapped?"),
        (["router", "run", "--capture", "rib.txt"], "swapped?"),
        (["copies", "receive", "--capture", "rib.txt"], "--capture rib.txt: is a prefix table, not a capture"),
        (["router", "bench", "--table", "a.pcap"], "swapped?"),
    ],
)
def test_swapped_files_are_told_before_anything_runs(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rib.txt").write_text("192.0.2.0/24\n")
    (tmp_path / "a.pcap").write_bytes(PCAP)
    with pytest.raises(InputError) as error:
        cli.app(args=words, prog_name="wirespeed", standalone_mode=False)
    assert said in str(error.value)
    assert not (tmp_path / "wirespeed-advice").exists()
    monkeypatch.setattr(sys, "argv", ["wirespeed", *words])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == cli.EXIT_INPUT
    assert said in capsys.readouterr().err
