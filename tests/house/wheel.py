"""Puts `wirespeedd` and the licences of what is linked into a wheel that maturin has built.

python tests/house/wheel.py WHEEL WIRESPEEDD LICENCES
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    wheel, daemon, licences = map(Path, sys.argv[1:4])
    with tempfile.TemporaryDirectory() as at:
        subprocess.run(
            [sys.executable, "-m", "wheel", "unpack", "--dest", at, wheel], check=True, stdout=subprocess.DEVNULL
        )
        (folder,) = Path(at).iterdir()
        scripts = folder / f"{folder.name}.data" / "scripts"
        scripts.mkdir(parents=True, exist_ok=True)
        shutil.copy2(daemon, scripts / "wirespeedd")
        (scripts / "wirespeedd").chmod(0o755)
        kept = folder / f"{folder.name}.dist-info" / "licenses"
        kept.mkdir(exist_ok=True)
        shutil.copy2(licences, kept / "THIRD-PARTY-LICENSES.txt")
        # As before, with a new list of what is in it.
        command = [sys.executable, "-m", "wheel", "pack", "--dest-dir", wheel.parent, folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
