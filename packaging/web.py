"""The browser edition: the page of `wirespeed explore` as a folder that needs no server.

    python packaging/web.py OUT

Compiles the simulator (`crates/web`) to WebAssembly, and packs it into one file, `OUT/index.html`: with the package
itself, the Python that runs it in a browser (Pyodide), and what draws charts (Vega). A page that is opened from a disk
may load nothing beside itself. Exit code 3 where a tool is missing.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import jinja2
import markupsafe

from wirespeed import __version__, _wirespeed, scenarios
from wirespeed.explore import browser
from wirespeed.report import live

ROOT = Path(__file__).resolve().parent.parent
CRATE = ROOT / "crates" / "web"
PAGE = CRATE / "page"
TARGET = "wasm32-unknown-unknown"
# A stack as long as a thread's: deep calls of models were judged on that.
STACK = 4 << 20
OF_NODE = (
    *("pyodide/pyodide.mjs", "pyodide/pyodide.asm.mjs", "pyodide/pyodide.asm.wasm", "pyodide/python_stdlib.zip"),
    *("vega/build/vega.min.js", "vega-lite/build/vega-lite.min.js", "vega-interpreter/build/vega-interpreter.js"),
)
WORKERS = ("simulator.js", "charts.js", "desk.js", "runs.js")
# Rooms of the package that the page never enters.
LEFT_OUT = {"papers", "operators", "router", "commands", "cluster"}
MISSING = 3


class MissingError(Exception):
    """A tool that is missing, and how to get it."""


def module_path() -> Path:
    """Where cargo leaves the simulator's module."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    return target / TARGET / "release" / "wirespeed_web.wasm"


def compile_module() -> Path:
    """Compiles the simulator. Raises MissingError where Rust's standard library for browsers cannot be had."""
    if shutil.which("cargo") is None:
        raise MissingError("cargo is missing: https://rustup.rs installs it")
    root = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True, cwd=ROOT)
    if not (Path(root.stdout.strip()) / "lib" / "rustlib" / TARGET).exists():
        get = ["rustup", "target", "add", TARGET]
        if shutil.which("rustup") is None or subprocess.run(get, cwd=ROOT, check=False).returncode != 0:
            raise MissingError(
                f"this Rust has no standard library for {TARGET}: `{' '.join(get)}` gets it (Debian's Rust: "
                f"`apt install libstd-rust-dev-wasm32 lld`)"
            )
    command = ["cargo", "rustc", "--release", "--locked", "--target", TARGET, "--package", "wirespeed-web"]
    command += ["--", "-Cstrip=symbols", f"-Clink-arg=-zstack-size={STACK}"]
    # A module cannot ask git: it is of the sources that the extension beside it was built from.
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "WIRESPEED_COMMIT": _wirespeed.commit()})
    return module_path()


def fetch_modules() -> Path:
    """The packages that `crates/web/package-lock.json` names. Raises MissingError where they cannot be had."""
    modules, lock = CRATE / "node_modules", CRATE / "package-lock.json"
    stamp = modules / ".package-lock.json"
    if stamp.exists() and stamp.stat().st_mtime >= lock.stat().st_mtime:
        return modules
    if shutil.which("npm") is None:
        raise MissingError("npm is missing, which gets Pyodide and Vega: https://nodejs.org, or `apt install npm`")
    if subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=CRATE, check=False).returncode:
        raise MissingError("npm could not get Pyodide and Vega: its message is above; the network is needed once")
    return modules


def pack(module: Path, modules: Path, out: Path) -> None:
    """Writes the page."""
    assets = {name.rpartition("/")[2]: (modules / name).read_bytes() for name in OF_NODE}
    assets["vega-interpreter.js"] = _interpreter(assets["vega-interpreter.js"].decode()).encode()
    assets |= {"simulator.wasm": module.read_bytes(), "app.zip": _app()}
    assets |= _compiled({name: assets[name] for name in ("app.zip", "python_stdlib.zip")}, modules / "pyodide")
    packed = {name: gzip.compress(data, 9, mtime=0) for name, data in assets.items()}
    lock = json.dumps(json.loads((modules / "pyodide" / "pyodide-lock.json").read_text(encoding="utf-8"))["info"])
    texts = {name: (PAGE / name).read_text(encoding="utf-8").replace("@LOCK@", lock) for name in WORKERS}
    blocks = [_block(f"asset-{name}", base64.b64encode(data).decode()) for name, data in packed.items()]
    blocks += [_block(f"worker-{name}", text) for name, text in texts.items()]
    before = (PAGE / "edition.js").read_text(encoding="utf-8")
    html = live.edition(browser.GIVEN, scenarios.scenario_names(), __version__, before, "\n".join(blocks))
    out.mkdir(parents=True, exist_ok=True)
    page = out / "index.html"
    page.write_text(html, encoding="utf-8")
    (out / "licences.txt").write_text(_licences(modules), encoding="utf-8")
    for name, data in sorted(packed.items(), key=lambda each: -len(each[1])):
        print(f"  {name}: {len(data) / 1e6:.2f} MB compressed")
    print(f"{page}: {page.stat().st_size / 1e6:.1f} MB; open it, it needs no server and no network")


def _licences(modules: Path) -> str:
    """What is in the page beside wirespeed, under which licence, with the texts that come along."""
    parts = []
    for name in sorted({each.partition("/")[0] for each in OF_NODE}):
        told = json.loads((modules / name / "package.json").read_text(encoding="utf-8"))
        texts = [path.read_text(encoding="utf-8") for path in sorted((modules / name).glob("LICEN[CS]E*"))]
        source = told.get("repository", {}).get("url", "")
        parts.append("\n\n".join([f"{name} {told['version']}: {told['license']}, {source}", *texts]))
    parts.append("Jinja2 and MarkupSafe: BSD-3-Clause; Python and its library, within pyodide: PSF-2.0")
    parts.append("wirespeed\n\n" + (ROOT / "LICENSE").read_text(encoding="utf-8"))
    return f"\n\n{'-' * 100}\n\n".join(parts)


def _compiled(archives: dict[str, bytes], pyodide: Path) -> dict[str, bytes]:
    """Archives of Python, compiled for that of the page: it begins in half the time. Raises MissingError."""
    if shutil.which("node") is None:
        raise MissingError(
            "node is missing, which compiles Python for the page: https://nodejs.org, or `apt install nodejs`"
        )
    with tempfile.TemporaryDirectory() as held:
        given, made = ({name: Path(held) / f"{side}-{name}" for name in archives} for side in ("given", "made"))
        for name, data in archives.items():
            given[name].write_bytes(data)
        pairs = [str(path) for name in archives for path in (given[name], made[name])]
        subprocess.run(["node", str(PAGE / "compile.mjs"), str(pyodide), *pairs], check=True)
        return {name: path.read_bytes() for name, path in made.items()}


def _interpreter(text: str) -> str:
    """The module of expressions as a script beside Vega's, of which it imports by a name that only bundlers know."""
    exports = r"export \{ (\w+) as expressionInterpreter \};"
    for pattern, put in (
        (r"import (\{[^}]*\}) from 'vega-util';", r"const \1 = globalThis.vega;"),
        (exports, r"globalThis.vegaInterpreter = { expressionInterpreter: \1 };"),
    ):
        text, found = re.subn(pattern, put, text)
        if found != 1:
            raise MissingError(f"vega-interpreter is not as it was: it has {found} times {pattern}")
    return text


def _block(name: str, text: str) -> str:
    """Data of the page, which no browser runs."""
    if "</script" in text.lower():
        raise ValueError(f"{name}: ends its block")
    return f'<script type="text/plain" id="{name}">{text}</script>'


def _app() -> bytes:
    """What Python needs beside its own library, as a zip file: the same bytes from the same files."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, data in sorted(_files()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_STORED)  # all is compressed once more
    return held.getvalue()


def _files() -> Iterator[tuple[str, bytes]]:
    package = ROOT / "python" / "wirespeed"
    for path in package.rglob("*"):
        inside = path.relative_to(package)
        is_part = path.suffix in (".py", ".j2", ".css", ".js") and inside.parts[0] not in LEFT_OUT
        if is_part and str(inside) != "__init__.py":
            yield f"wirespeed/{inside.as_posix()}", path.read_bytes()
    # What people import is more than the page does.
    yield "wirespeed/__init__.py", f'__version__ = "{__version__}"\n'.encode()
    yield "wirespeed/_wirespeed.py", (PAGE / "_wirespeed.py").read_bytes()
    for name in ("boot.py", "altair.py", "vl_convert.py"):
        yield name, (PAGE / name).read_bytes()
    for library in (jinja2, markupsafe):
        folder = Path(str(library.__file__)).parent
        for path in folder.rglob("*.py"):
            yield f"{folder.name}/{path.relative_to(folder).as_posix()}", path.read_bytes()


if __name__ == "__main__":
    try:
        pack(compile_module(), fetch_modules(), Path(sys.argv[1]))
    except MissingError as e:
        print(f"make web: {e}", file=sys.stderr)
        sys.exit(MISSING)
