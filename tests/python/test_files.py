"""What is written appears whole or not at all, what is read back is what was written, and what is not ours stays."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import summaries
import wirespeed
from wirespeed import files, sealed
from wirespeed.papers.paper import KEPT_FILE, Kept
from wirespeed.result import Result
from wirespeed.stored import FILES, NEEDED, TABLES, judged
from wirespeed.sweep import folder as folders
from wirespeed.sweep import study
from wirespeed.sweep.work import Outcome
from wirespeed.tune.journal import Journal
from wirespeed.tune.target import Measurement

ROWS = pa.table({"id": [f"{i:016x}" for i in range(3)], "value": [1.5, 2.5, 3.5]})
SET = ["run.packets=2000", "run.warmup=500", "run.curve=[]", "function.forward.prefixes=1000"]
SMALL = [f"--set={each}" for each in SET]


class StandIn:
    """What the extension would hand back, with the files that it writes."""

    partial = False
    lower_loads_json = "[]"
    resolved = "seed = 1\n"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.summary_json = json.dumps(summaries.sound() | {"run_id": run_id, "batches": {}})

    def write(self, folder: str) -> list[str]:
        base = Path(folder)
        for name in TABLES:
            told = ROWS.replace_schema_metadata({"wirespeed.run_id": self.run_id})
            pa.parquet.write_table(told, base / f"{name}.parquet")
        (base / "summary.json").write_text(self.summary_json, encoding="utf-8")
        (base / "scenario.toml").write_text(self.resolved, encoding="utf-8")
        return [str(base / name) for name in (*(f"{name}.parquet" for name in TABLES), "summary.json", "scenario.toml")]


def result(run_id: str) -> Result:
    run = StandIn(run_id)
    return Result(run.summary_json, run.resolved, dict.fromkeys(TABLES, ROWS), run, None)  # type: ignore[arg-type]


OLD, NEW = "00000000000000aa", "00000000000000bb"


def flips(content: bytes, bits: range = range(8), step: int = 1) -> Iterator[bytes]:
    """The content with one bit changed, for each of these bits of every byte (of every `step`th byte)."""
    changed = bytearray(content)
    for place in range(0, len(content), step):
        for bit in bits:
            changed[place] ^= 1 << bit
            yield bytes(changed)
            changed[place] ^= 1 << bit


def parts(folder: Path) -> list[str]:
    return [each.name for each in folder.rglob(f"*{files.PART}*")]


# --- whole or not at all ---


def test_a_file_is_there_whole_and_under_its_name_alone(tmp_path: Path) -> None:
    files.write(tmp_path / "a.txt", "old")
    with files.whole(tmp_path / "a.txt") as file:
        file.write(b"new")
        file.flush()
        assert (tmp_path / "a.txt").read_text() == "old"
    assert (tmp_path / "a.txt").read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_write_that_fails_names_the_file_and_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(tmp_path / "a.txt", "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as raised:
        files.write(tmp_path / "a.txt", "new")
    assert raised.value.filename == str(tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "old"
    with pytest.raises(OSError, match="No space left"):
        files.write_texts(tmp_path / "set", {"b.txt": "x"})
    assert parts(tmp_path) == []
    assert not (tmp_path / "set" / "b.txt").exists()


def test_a_full_disk_while_a_result_is_written_leaves_the_old_one(tmp_path: Path) -> None:
    result(OLD).write(tmp_path, report=False)

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    ran = subprocess.run(
        [sys.executable, "-m", "wirespeed", "run", "forwarding", *SMALL, "--out", str(tmp_path), "--force"],
        capture_output=True,
        text=True,
        preexec_fn=limited,
    )
    assert (ran.returncode, "Traceback" in ran.stderr) == (2, False), ran.stderr
    assert f"wirespeed: {tmp_path}" in ran.stderr
    assert "File too large" in ran.stderr
    assert ".part" not in ran.stderr
    assert parts(tmp_path) == []
    assert wirespeed.read(tmp_path).run_id == OLD


def test_a_kill_at_any_moment_leaves_the_old_result_the_new_one_or_a_mixture_that_is_refused(tmp_path: Path) -> None:
    seen = set()
    renames = len(FILES) - 1 + 2  # the report is left out; the list of what is ours is written before and after
    for moment in range(renames + 1):
        folder = tmp_path / str(moment)
        result(OLD).write(folder, report=False)
        with pytest.MonkeyPatch.context() as patch:
            _die_at(moment, patch)
            with contextlib.suppress(Killed):
                result(NEW).write(folder, report=False)
        seen.add(_state(folder))
        # Whatever the kill left is ours, and the next run may replace it.
        result(NEW).write(folder, report=False)
        assert wirespeed.read(folder).run_id == NEW
    assert seen == {OLD, NEW, "mixed"}


class Killed(BaseException):
    """The end of a process."""


def _die_at(moment: int, patch: pytest.MonkeyPatch) -> None:
    """Ends what runs in place of the rename that has this number; nothing is cleaned up after a kill."""
    renames = iter(range(moment))
    replace = Path.replace

    def dying(self: Path, target: Path) -> Path:
        if next(renames, None) is not None:
            return replace(self, target)
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        raise Killed

    patch.setattr(Path, "replace", dying)


def _state(folder: Path) -> str:
    """Which result is there, whole."""
    try:
        found = wirespeed.read(folder)
    except wirespeed.InputError as e:
        return "mixed" if OLD in str(e) and NEW in str(e) else str(e)
    ids = {found.run_id} | {_run_id(folder / f"{name}.parquet") for name in TABLES}
    return found.run_id if len(ids) == 1 else str(ids)


def _run_id(file: Path) -> str:
    return pa.parquet.ParquetFile(file).metadata.metadata[b"wirespeed.run_id"].decode()


def test_a_pipe_is_written_to_as_it_is() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from wirespeed import files; files.write('/dev/stdout', 'told')"],
        capture_output=True,
        text=True,
    )
    assert (ran.stdout, ran.stderr) == ("told", "")


# --- what is not ours ---


def test_what_wirespeed_did_not_write_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(wirespeed.InputError, match=r"report.html: was not written by wirespeed; .* --force"):
        result(OLD).write(tmp_path)
    assert (tmp_path / "report.html").read_text() == "mine"
    assert not (tmp_path / "summary.json").exists()
    result(OLD).write(tmp_path, report=False)
    assert (tmp_path / "report.html").read_text() == "mine"
    result(OLD).write(tmp_path, force=True)
    assert (tmp_path / "report.html").read_text() != "mine"


def test_what_was_changed_since_is_not_replaced(tmp_path: Path) -> None:
    result(OLD).write(tmp_path)
    (tmp_path / "scenario.toml").write_text("# my own\nseed = 2\n")
    with pytest.raises(wirespeed.InputError, match=r"scenario.toml: was changed since wirespeed wrote it"):
        result(NEW).write(tmp_path)
    assert (tmp_path / "scenario.toml").read_text() == "# my own\nseed = 2\n"


def test_a_file_that_is_no_machine_is_not_replaced_by_one(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("# my notes")
    (tmp_path / "link.toml").symlink_to(tmp_path / "mine.toml")
    for name, said in (("mine.toml", "was not written by `wirespeed calibrate`"), ("link.toml", "symbolic link")):
        called = [sys.executable, "-m", "wirespeed", "calibrate", "--out", str(tmp_path / name)]
        ran = subprocess.run(called, capture_output=True, text=True, timeout=120)
        assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr
    assert (tmp_path / "mine.toml").read_text() == "# my notes"


def test_links_are_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    for name in (*FILES, files.LIST_FILE):
        (out / name).symlink_to(victim)
        with pytest.raises(wirespeed.InputError, match=r"is a symbolic link"):
            result(OLD).write(out, force=True)
        (out / name).unlink()
    for name in study.FILES:
        (out / name).symlink_to(victim)
        with pytest.raises(wirespeed.InputError, match=r"is a symbolic link"):
            study.Study([], {}).write(out, force=True)
        (out / name).unlink()
    for name in (folders.RUNS, ".lock"):
        (out / name).symlink_to(victim)
        with pytest.raises(wirespeed.InputError, match=r"is a symbolic link"):
            folders.Folder(out)
        (out / name).unlink()
    assert victim.read_text() == "precious"


def test_a_run_says_what_it_replaces_and_refuses_before_it_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wirespeed", "run", "forwarding", *SMALL, "--out", str(tmp_path)]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "replaced" not in first.stderr
    run_id = wirespeed.read(tmp_path).run_id
    second = subprocess.run([*command, "--seed=5", "--no-report"], capture_output=True, text=True, check=True)
    assert f"wirespeed: replaced run {run_id} in {tmp_path}" in second.stderr
    assert not (tmp_path / "report.html").exists()
    (tmp_path / "report.html").write_text("mine")
    third = subprocess.run(
        [*command, "--set=run.packets=2000000000"], capture_output=True, text=True, timeout=60, check=False
    )
    assert third.returncode == 2
    assert "was not written by wirespeed" in third.stderr


# --- what is read back ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    result(OLD).write(tmp_path / "result")
    return tmp_path / "result"


def test_no_bit_of_a_summary_changes_unseen(folder: Path) -> None:
    whole = sealed.parse((folder / "summary.json").read_bytes())
    small = sealed.seal({name: whole[name] for name in NEEDED} | {"files": whole["files"]})
    for document, bits, step in ((small, range(8), 1), (whole, range(1), 29)):
        content = json.dumps(document, indent=1).encode()
        unseen = 0
        for changed in flips(content, bits, step):
            try:
                unseen += judged(folder, changed) != document
            except wirespeed.InputError:
                continue
        assert unseen == 0


def test_no_bit_of_a_table_or_of_the_scenario_changes_unseen(folder: Path) -> None:
    for name, bits, step in (
        ("runs.parquet", range(8), 5),
        ("packets.parquet", range(1), 7),
        ("scenario.toml", range(8), 3),
    ):
        content = (folder / name).read_bytes()
        for changed in flips(content, bits, step):
            (folder / name).write_bytes(changed)
            with pytest.raises(wirespeed.InputError, match=name):
                wirespeed.read(folder)
        (folder / name).write_bytes(content)
    assert wirespeed.read(folder).run_id == OLD


def test_a_table_that_changes_after_the_result_was_read_is_refused(folder: Path) -> None:
    read = wirespeed.read(folder)
    assert pa.table(read.packets).num_rows == 3
    shutil.copy(folder / "series.parquet", folder / "kept")
    pa.parquet.write_table(ROWS.slice(1), folder / "packets.parquet")
    with pytest.raises(wirespeed.InputError, match="was changed since the result was read"):
        pa.table(read.packets)


@pytest.mark.parametrize("name", [*(f"{name}.parquet" for name in TABLES), "summary.json"])
def test_files_of_two_runs_are_refused_and_both_runs_named(folder: Path, tmp_path: Path, name: str) -> None:
    result(NEW).write(tmp_path / "other")
    shutil.copy(tmp_path / "other" / name, folder / name)
    with pytest.raises(wirespeed.InputError, match="files of two runs are mixed") as raised:
        wirespeed.read(folder)
    assert OLD in str(raised.value)
    assert NEW in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": "wirespeed.run/1"}', r"run_id, seed, .*checksum: missing"),
        ('{"schema": "wirespeed.sweep/1"}', "no summary of a run"),
        ("[]", "no summary of a run"),
        ("[" * 3000 + "]" * 3000, "nested too deeply"),
        ('{"schema": ' * 3000 + "1" + "}" * 3000, "nested too deeply"),
        ("\xff\xfe", "is not JSON"),
    ],
)
def test_a_summary_that_is_none_is_bad_input(folder: Path, text: str, said: str) -> None:
    (folder / "summary.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(wirespeed.InputError, match=said):
        wirespeed.read(folder)
    ran = subprocess.run(
        [sys.executable, "-m", "wirespeed", "compare", str(folder), str(folder)], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout, "Traceback" in ran.stderr) == (2, "", False), ran.stderr


def test_an_edited_summary_is_refused_and_one_that_was_laid_out_anew_is_not(folder: Path) -> None:
    document = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(dict(reversed(document.items())), indent=7))
    assert wirespeed.read(folder).summary["loss"] == document["loss"]
    (folder / "summary.json").write_text(json.dumps(document | {"loss": 0.0}))
    with pytest.raises(wirespeed.InputError, match=r"was edited, or is damaged; run it again"):
        wirespeed.read(folder)


# --- runs of a sweep ---


def outcome(key: str) -> Outcome:
    values: dict[str, float | str] = {f"value.{i}": i / 7 for i in range(12)} | {"run_id": "ab" * 8, "packets": 2000}
    return Outcome(key, values, None, 1.25, 1.0, "host:1")


def test_no_bit_of_a_run_of_a_sweep_changes_unseen() -> None:
    key = "1" * 32
    content = folders.serialize(outcome(key), {"seed": 1, "traffic.load": 0.25})
    assert folders.parse(content, key) == outcome(key)
    for changed in flips(content):
        with pytest.raises(ValueError, match="checksum"):
            folders.parse(changed, key)
    for length in range(0, len(content), 7):
        with pytest.raises(ValueError, match="checksum"):
            folders.parse(content[:length], key)


def test_runs_of_a_sweep_that_were_swapped_are_told_and_run_again(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:

        def run() -> study.Study:
            return wirespeed.sweep("forwarding", {"traffic.load": [0.3, 0.9]}, set=SET, out=tmp_path, executor=pool)

        first = run()
        a, b = (tmp_path / folders.RUNS / f"{row['key']}.parquet" for row in first.rows)
        a.rename(tmp_path / "x")
        b.rename(a)
        (tmp_path / "x").rename(b)
        second = run()
    assert second.rows == first.rows
    assert (second.ran, len(second.refused)) == (2, 2)
    assert "it is of another run" in second.refused[0]


def test_a_sweep_says_which_files_it_does_not_trust(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wirespeed", "sweep", "forwarding", "--vary=traffic.load=0.3", *SMALL]
    command += ["--jobs=1", "--out", str(tmp_path)]
    subprocess.run(command, capture_output=True, check=True)
    (file,) = (tmp_path / folders.RUNS).iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"wirespeed: {file}: its checksum is of other content" in ran.stderr
    assert "run again" in ran.stderr


# --- journals ---


def _journal(path: Path) -> None:
    with Journal(path, "target") as journal:
        for value in (128, 256):
            journal.put({"nic.rx_descriptors": value}, Measurement({"p99": value / 3}, 0.5, None))


def _kept(path: Path) -> None:
    for key in ("a", "b"):
        Kept(path.parent).add(key, {"p99": 1.5})


def _read_journal(path: Path) -> Any:
    with Journal(path, "target") as journal:
        return {value: journal.get({"nic.rx_descriptors": value}) for value in (128, 256)}


def _read_kept(path: Path) -> Any:
    kept = Kept(path.parent)
    return {key: kept.get(key) for key in ("a", "b")}


@pytest.mark.parametrize(
    ("name", "make", "read"), [("journal.jsonl", _journal, _read_journal), (KEPT_FILE, _kept, _read_kept)]
)
def test_no_bit_of_a_journal_changes_unseen(
    tmp_path: Path, name: str, make: Callable[[Path], None], read: Callable[[Path], Any]
) -> None:
    path = tmp_path / name
    make(path)
    content, whole = path.read_bytes(), read(path)
    for changed in flips(content):
        path.write_bytes(changed)
        try:
            found = read(path)
        except wirespeed.InputError:
            continue
        # A line that is not trusted is measured again.
        assert all(found[each] in (whole[each], None) for each in whole)


def test_a_file_that_is_no_journal_is_not_touched(tmp_path: Path) -> None:
    for text in ("my notes, without a line's end", "my notes\n"):
        (tmp_path / "notes").write_text(text)
        with pytest.raises(wirespeed.InputError):
            Journal(tmp_path / "notes", "target")
        assert (tmp_path / "notes").read_text() == text


# --- run again ---


def test_a_folder_and_any_of_its_files_are_enough_to_run_again(tmp_path: Path) -> None:
    first = wirespeed.run("forwarding", set=[*SET, "run.seed=7"])
    first.write(tmp_path / "out")
    for name in (*(f"{table}.parquet" for table in TABLES), "scenario.toml", "report.html"):
        assert wirespeed.resolve(tmp_path / "out" / name) == first.scenario, name
    # Alone, and under another name, as a baseline is kept.
    shutil.copy(tmp_path / "out" / "summary.json", tmp_path / "baseline.json")
    for again in (tmp_path / "out", tmp_path / "baseline.json"):
        assert wirespeed.run(again).run_id == first.run_id
    (tmp_path / "printed.json").write_text(first.summary_json)
    with pytest.raises(wirespeed.InputError, match="is a summary without its scenario"):
        wirespeed.run(tmp_path / "printed.json")
    called = [sys.executable, "-m", "wirespeed", "run", str(tmp_path / "out"), "--format=json"]
    ran = subprocess.run(called, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["run_id"] == first.run_id


def test_a_summary_alone_is_a_baseline(tmp_path: Path) -> None:
    first = wirespeed.run("forwarding", set=SET)
    first.write(tmp_path / "out", report=False)
    kept, printed = tmp_path / "kept.json", tmp_path / "printed.json"
    shutil.copy(tmp_path / "out" / "summary.json", kept)
    printed.write_text(first.summary_json)
    for baseline in (kept, printed):
        found = wirespeed.compare(baseline, first)
        assert found.document["a"]["run_id"] == first.run_id
        assert all(each["a"] == each["b"] for each in found.metrics.values())
    alone = wirespeed.read(kept)
    assert (alone.summary["packets"], alone.scenario) == (first.summary["packets"], first.scenario)
    with pytest.raises(wirespeed.InputError, match="is a summary alone, without the table `packets`"):
        alone.packets.to_arrow()
    edited = kept.read_text().replace('"packets": ', '"packets": 1', 1)
    assert edited != kept.read_text()
    kept.write_text(edited)
    with pytest.raises(wirespeed.InputError, match="was edited, or is damaged"):
        wirespeed.compare(kept, first)


def test_what_is_no_result_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"schema": "wirespeed.sweep/1"}')
    with pytest.raises(wirespeed.InputError, match="is no summary of a run"):
        wirespeed.run(tmp_path / "other.json")
    (tmp_path / "other.html").write_text("<!doctype html><p>wirespeed")
    with pytest.raises(wirespeed.InputError, match="is a page that shows no scenario"):
        wirespeed.run(tmp_path / "other.html")
    with pytest.raises(wirespeed.InputError, match="is a folder; a scenario is a TOML file"):
        wirespeed.run(tmp_path)
    pa.parquet.write_table(ROWS, tmp_path / "foreign.parquet")
    with pytest.raises(wirespeed.InputError, match="no run of wirespeed wrote"):
        wirespeed.run(tmp_path / "foreign.parquet")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(wirespeed.InputError, match="cannot be read"):
        wirespeed.run(tmp_path / "cut.parquet")
