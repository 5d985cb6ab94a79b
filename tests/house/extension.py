"""Puts what cargo has built of the extension and `wirespeedd` into the environment that runs this: `maturin develop`
without cargo.

`python tests/house/extension.py target/debug`. maturin would have cargo resolve features for the extension alone, and
compile most libraries a second time beside those of cargo's tests.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "_wirespeed.abi3.so"


def replace(source: Path, target: Path) -> None:
    """Copies `source` beside `target` and renames it: a process that runs the old one keeps it."""
    beside = target.with_name(f".{target.name}.new")
    shutil.copy2(source, beside)
    beside.replace(target)


def main() -> None:
    """Installs from the folder that the first argument names."""
    built = Path(sys.argv[1])
    replace(built / "lib_wirespeed.so", ROOT / "python" / "wirespeed" / NAME)
    scripts = Path(sys.executable).parent
    replace(built / "wirespeedd", scripts / "wirespeedd")
    Path(sysconfig.get_path("purelib"), "wirespeed.pth").write_text(f"{ROOT / 'python'}\n")
    command = scripts / "wirespeed"
    command.write_text(f"#!{sys.executable}\nimport sys\n\nfrom wirespeed.cli import main\n\nsys.exit(main())\n")
    command.chmod(0o755)


if __name__ == "__main__":
    main()
