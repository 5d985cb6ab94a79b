"""Packs `wirespeedd` for Debian and Ubuntu: `make deb`.

python packaging/deb.py WIRESPEEDD FOLDER   # leaves FOLDER/wirespeedd_VERSION_ARCH.deb

The unit is installed and neither enabled nor started: it changes caches of a machine, which somebody has to want. For
the same reason there is no /etc/wirespeedd.toml, but an example. Two builds of one commit are the same file: times are
those of the commit (SOURCE_DATE_EPOCH), owners are root, and the order is that of names.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import manual

ROOT = Path(__file__).resolve().parents[1]
MONITORING = ROOT / "packaging" / "monitoring"
SYSTEMD = ROOT / "crates" / "daemon" / "systemd"
MAINTAINER = "The wirespeed project <wirespeed@users.noreply.github.com>"
HOME = "https://github.com/wirespeed/wirespeed"
REVISION = "1"
OVERRIDES = """# The package is the project's own, and was never proposed to Debian.
wirespeedd: initial-upload-closes-no-bugs *
"""
_DESCRIPTION = """ways of the last-level cache for packet cores and devices
 wirespeedd observes a server that forwards packets, decides by the policy
 that the simulator wirespeed has tried, and sets which ways of the last-level
 cache packet cores and devices may fill (Intel RDT by resctrl, and the I/O
 ways of DDIO). A dry run says what it would do. Whatever ends it, everything
 is put back as it was.
 .
 With it come a unit for systemd, metrics for Prometheus with alerts, and a
 board for Grafana."""
# Debian's way to stop, start and forget a unit, without debhelper.
_POSTINST = """#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
    # After an upgrade a service that ran runs the new program.
    if [ -n "$2" ]; then
        deb-systemd-invoke try-restart wirespeedd.service >/dev/null || true
    fi
fi
"""
_PRERM = """#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    # Its end puts everything back.
    deb-systemd-invoke stop wirespeedd.service >/dev/null || true
fi
"""
_POSTRM = """#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ]; then
    if command -v deb-systemd-helper >/dev/null; then
        deb-systemd-helper purge wirespeedd.service >/dev/null || true
    fi
    rm -rf /var/lib/wirespeedd
fi
"""


def main() -> None:
    """Packs what the command line names."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(build(Path(sys.argv[1]), Path(sys.argv[2])))


def version() -> str:
    """The version of the sources."""
    found = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    return str(found["workspace"]["package"]["version"])


def build(program: Path, folder: Path, arch: str | None = None) -> Path:
    """Packs a program into `folder`; returns the package. Raises CalledProcessError where a tool of Debian's fails."""
    arch = arch or subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / f"wirespeedd_{version()}-{REVISION}_{arch}.deb"
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _committed())
    with tempfile.TemporaryDirectory() as at:
        root = Path(at) / "root"
        stage(program, root, epoch)
        _control(root, program, arch)
        for path in sorted(root.rglob("*"), reverse=True):
            os.utime(path, (epoch, epoch))
        os.utime(root, (epoch, epoch))
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, package],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
        )
    return package


def stage(program: Path, root: Path, epoch: int) -> None:
    """Lays the files of the package out below `root`."""
    date = time.strftime("%Y-%m-%d", time.gmtime(epoch))
    binary = root / "usr/bin/wirespeedd"
    binary.parent.mkdir(parents=True)
    shutil.copyfile(program, binary)
    if shutil.which("strip") and program.read_bytes()[:4] == b"\x7fELF":
        subprocess.run(["strip", "--strip-unneeded", "--remove-section=.comment", binary], check=True)
    binary.chmod(0o755)
    doc, shared = root / "usr/share/doc/wirespeedd", root / "usr/share/wirespeedd"
    copies = {
        root / "lib/systemd/system/wirespeedd.service": SYSTEMD / "wirespeedd.service",
        doc / "examples/wirespeedd.toml": SYSTEMD / "wirespeedd.toml",
        shared / "grafana.json": MONITORING / "grafana.json",
        shared / "alerts.yml": MONITORING / "alerts.yml",
    }
    for to, source in copies.items():
        _write(to, source.read_bytes())
    texts = {
        root / "usr/share/man/man8/wirespeedd.8.gz": _packed(manual.program_page(program, version(), date)),
        root / "usr/share/man/man5/wirespeedd.toml.5.gz": _packed(manual.configuration_page(version(), date)),
        root / "usr/share/bash-completion/completions/wirespeedd": manual.bash(program).encode(),
        root / "usr/share/zsh/vendor-completions/_wirespeedd": manual.zsh(program).encode(),
        root / "usr/share/fish/vendor_completions.d/wirespeedd.fish": manual.fish(program).encode(),
        root / "usr/share/lintian/overrides/wirespeedd": OVERRIDES.encode(),
        doc / "copyright": copyright_file(epoch).encode(),
        doc / "changelog.Debian.gz": _packed(_changelog(epoch)),
        doc / "THIRD-PARTY.md.gz": _packed((ROOT / "THIRD-PARTY.md").read_text(encoding="utf-8")),
    }
    for to, content in texts.items():
        _write(to, content)


def copyright_file(epoch: int) -> str:
    """Debian's machine-readable copyright."""
    return f"""Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: wirespeed
Source: {HOME}
Comment: Crates that the program is linked with stand in THIRD-PARTY.md.gz, each with its licence.

Files: *
Copyright: {time.gmtime(epoch).tm_year} The wirespeed authors
License: Apache-2.0
 On Debian systems the text of the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
"""


def needs(program: Path) -> str:
    """The packages that a program wants: the C library in the least version that has all its symbols."""
    symbols = subprocess.check_output(["objdump", "-T", program], text=True)
    found = {tuple(map(int, each.split("."))) for each in re.findall(r"GLIBC_([\d.]+)", symbols)}
    if not found:
        raise ValueError(f"{program}: names no version of the C library: is it linked with it?")
    least = ".".join(map(str, max(found)))
    gcc = ", libgcc-s1 (>= 4.2)" if "GCC_" in symbols else ""
    return f"libc6 (>= {least}){gcc}, init-system-helpers (>= 1.54)"


def _control(root: Path, program: Path, arch: str) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files)
    sums = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files)
    control = f"""Package: wirespeedd
Version: {version()}-{REVISION}
Architecture: {arch}
Maintainer: {MAINTAINER}
Installed-Size: {(size + 1023) // 1024}
Depends: {needs(program)}
Suggests: prometheus, intel-cmt-cat
Section: net
Priority: optional
Homepage: {HOME}
Description: {_DESCRIPTION}
"""
    for name, text, mode in (
        ("control", control, 0o644),
        ("md5sums", sums, 0o644),
        ("postinst", _POSTINST, 0o755),
        ("prerm", _PRERM, 0o755),
        ("postrm", _POSTRM, 0o755),
    ):
        _write(root / "DEBIAN" / name, text.encode(), mode)
    for path in root.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    root.chmod(0o755)


def _changelog(epoch: int) -> str:
    when = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(epoch))
    return f"""wirespeedd ({version()}-{REVISION}) unstable; urgency=medium

  * Packed from the sources: CHANGELOG.md of the project has what is new.

 -- {MAINTAINER}  {when}
"""


def _committed() -> str:
    """The time of the commit, or of now where there is none."""
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or str(int(time.time()))


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


if __name__ == "__main__":
    main()
