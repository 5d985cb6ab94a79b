"""Files that are written whole or not at all.

A file is written under a name of its own in the folder where it belongs, synchronized, and renamed. So whoever reads
finds what was there before, or all of what is new. Files of one result are renamed one after the other, the one that
holds the checksums of the others last: what a kill leaves of the two sets is seen to be a mixture.

What is not ours stays: a link is never followed, and of the files of a folder none is replaced that wirespeed did not
write. What it wrote it knows by a list in the folder. A single file that somebody names is replaced.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from wirespeed.errors import InputError

PathLike = str | os.PathLike[str]
LIST_FILE: Final = ".wirespeed.json"
PART: Final = ".part"
_LIST_SCHEMA: Final = "wirespeed.files/1"
_DIGEST_BYTES: Final = 16


def digest(content: bytes) -> str:
    """BLAKE2b of 16 bytes, in hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def digest_of(path: PathLike) -> str:
    """The digest of a file's content. Raises OSError."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, _hash).hexdigest()


def warm_folder() -> str | None:
    """Where warm machines are kept for other processes; None where nobody says where home is.

    It is below `$XDG_CACHE_HOME`, an absolute path, or `~/.cache` (XDG base directory specification).
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            return None
    return str(base / "wirespeed" / "warm")


def write(path: PathLike, content: str | bytes) -> Path:
    """Writes one file, whole or not at all. Raises OSError that names it, and InputError for a link."""
    with whole(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return Path(path)


@contextlib.contextmanager
def whole(path: PathLike) -> Iterator[IO[bytes]]:
    """A file to write to, which is there under its name when the block ends well, and is nowhere when it does not.

    A pipe or a device (/dev/stdout) is written to as it is. Raises OSError that names `path`, and InputError where it
    is a link to a file.
    """
    with replaced(path) as part, part.open("wb") as file:
        yield file


@contextlib.contextmanager
def replaced(path: PathLike) -> Iterator[Path]:
    """As `whole`, for what is written by somebody who wants a name: the name to write to meanwhile."""
    final = Path(path)
    if _is_stream(final):
        with _named(final):
            yield final
        return
    refuse_link(final)
    part = final.with_name(f".{final.name}.{os.getpid()}.{os.urandom(4).hex()}{PART}")
    with _named(part, shown=final):
        if final.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(final))
        try:
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            yield part
            with part.open("rb") as written:
                os.fsync(written.fileno())
            part.replace(final)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
        _synchronize(final.parent)


def write_set(
    folder: PathLike,
    make: Callable[[Path], Sequence[str]],
    *,
    names: Sequence[str],
    stale: Iterable[str] = (),
    force: bool = False,
) -> list[Path]:
    """Writes files that belong together; returns them.

    `make` writes them into the empty folder that it is given and returns their names, those of `names` that it wrote,
    in the order in which they are to appear. `stale` are files of an earlier set that go if they are ours. With
    `force` files that are not ours are replaced too. Raises InputError as `judge` does, and OSError that names a file.
    """
    base = Path(folder)
    judge(base, names, force)
    with _named(base):
        base.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".wirespeed-", suffix=PART, dir=base))
    try:
        with _named(made, shown=base):
            order = list(make(made))
        digests = {}
        for name in order:
            with _named(base / name), (made / name).open("rb") as file:
                digests[name] = hashlib.file_digest(file, _hash).hexdigest()
                os.fsync(file.fileno())
        _appear(base, made, order, digests, stale)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return [base / name for name in order]


def write_texts(folder: PathLike, texts: Mapping[str, str | bytes], *, force: bool = False) -> list[Path]:
    """As `write_set`, of texts by name, in their order; what is no text goes there as it is."""

    def make(into: Path) -> list[str]:
        for name, text in texts.items():
            (into / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return list(texts)

    return write_set(folder, make, names=list(texts), force=force)


def judge(folder: PathLike, names: Iterable[str], force: bool = False) -> list[str]:
    """Which of `names` are there and may be replaced.

    Raises InputError for a link, for what is no regular file, and, without `force`, for a file that wirespeed did not
    write, or that was changed since.
    """
    base = Path(folder)
    if base.exists() and not base.is_dir():
        raise InputError(f"{base}: is a file; results are written to a folder")
    ours = _listed(base)
    found = []
    for name in names:
        file = base / name
        refuse_link(file)
        try:
            kind = file.lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(kind):
            raise InputError(f"{file}: is no regular file; name another folder")
        if not force and digest_of(file) not in ours.get(name, ()):
            how = "was changed since wirespeed wrote it" if name in ours else "was not written by wirespeed"
            raise InputError(f"{file}: {how}; name another folder, move the file away, or replace it with --force")
        found.append(name)
    return found


def refuse_link(path: PathLike) -> None:
    """Raises InputError where `path` is a symbolic link: what it points to is not replaced."""
    if Path(path).is_symlink():
        raise InputError(f"{path}: is a symbolic link, which is not followed; name the file itself, or remove the link")


def _appear(base: Path, made: Path, order: Sequence[str], digests: Mapping[str, str], stale: Iterable[str]) -> None:
    """Renames what was made, after the list says that old and new are ours."""
    before = _listed(base)
    gone = [name for name in stale if name not in digests and _is_ours(base / name, before.get(name, ()))]
    both = {name: [*before.get(name, ()), new] for name, new in digests.items()}
    _keep_list(base, before | both)
    for name in gone:
        (base / name).unlink(missing_ok=True)
    for name in order:
        with _named(base / name):
            (made / name).replace(base / name)
    _synchronize(base)
    rest = {name: old for name, old in before.items() if name not in gone}
    _keep_list(base, rest | {name: [new] for name, new in digests.items()})


def _keep_list(base: Path, files: Mapping[str, Sequence[str]]) -> None:
    kept = {name: list(dict.fromkeys(digests)) for name, digests in files.items()}
    write(base / LIST_FILE, json.dumps({"schema": _LIST_SCHEMA, "files": kept}, indent=1) + "\n")


def _listed(base: Path) -> dict[str, list[str]]:
    """The digests that files of ours have, by name; nothing where the list is missing or damaged."""
    try:
        refuse_link(base / LIST_FILE)
        found: Any = json.loads((base / LIST_FILE).read_bytes())
        if found["schema"] != _LIST_SCHEMA:
            return {}
        return {str(name): [str(each) for each in digests] for name, digests in found["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _is_ours(file: Path, digests: Iterable[str]) -> bool:
    return not file.is_symlink() and file.is_file() and digest_of(file) in digests


def _hash() -> Any:
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)


def _is_stream(path: Path) -> bool:
    """Whether something is there that is neither a file nor a folder."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _synchronize(folder: Path) -> None:
    """Makes renames last through a power cut; a file system that cannot is not asked twice."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextlib.contextmanager
def _named(path: Path, shown: Path | None = None) -> Iterator[None]:
    """An OSError of the block names the file it is about: that of a full disk does not, or names a temporary one."""
    try:
        yield
    except OSError as e:
        if e.errno is None:
            # The extension's: a text that begins with the path.
            raise OSError(str(e).replace(str(path), str(shown or path))) from None
        named = str(shown or path)
        if shown is not None and e.filename is not None and Path(str(e.filename)).parent == path:
            named = str(shown / Path(str(e.filename)).name)
        raise type(e)(e.errno, e.strerror, named) from None
