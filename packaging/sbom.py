"""The bill of materials of what is shipped, as CycloneDX 1.6: crates that are linked, Python packages that are wanted.

python packaging/sbom.py FILE

Crates and their checksums are those of Cargo.lock. Python packages are not pinned: the versions are those of the
environment that this runs in, which a property says. The document of one commit and environment is the same each time.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import tomllib
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "house"))

import licences  # noqa: E402

Component = dict[str, Any]


def main() -> None:
    """Writes the document that the command line names."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    Path(sys.argv[1]).write_text(json.dumps(document(), indent=1) + "\n", encoding="utf-8")


def document() -> dict[str, Any]:
    """The document. Raises PackageNotFoundError where a Python package is not installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    crates, (packages, wants) = rust(), python(project["dependencies"])
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%H %ct"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    whole = {
        "type": "application",
        "bom-ref": f"pkg:pypi/wirespeed@{version}",
        "name": "wirespeed",
        "version": version,
        "purl": f"pkg:pypi/wirespeed@{version}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    direct = [ref(each) for each in packages if _same(each["name"], project["dependencies"])]
    dependencies = [{"ref": whole["bom-ref"], "dependsOn": sorted([*direct, *(ref(each) for each in crates)])}]
    dependencies += [{"ref": at, "dependsOn": sorted(of)} for at, of in sorted(wants.items())]
    stamp = int(commit[1]) if commit else int(time.time())
    found = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stamp)),
            "component": whole,
            "properties": [{"name": "wirespeed:commit", "value": commit[0] if commit else "unknown"}],
        },
        "components": [*crates, *packages],
        "dependencies": dependencies,
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(found, sort_keys=True))
    return {**found, "serialNumber": f"urn:uuid:{serial}"}


def ref(component: Component) -> str:
    """A component's name within the document."""
    return str(component["bom-ref"])


def rust() -> list[Component]:
    """Crates that are linked, with the checksums of Cargo.lock."""
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    sums = {(each["name"], each["version"]): each.get("checksum") for each in locked}
    found = []
    for crate in licences.linked():
        purl = f"pkg:cargo/{crate['name']}@{crate['version']}"
        component = {
            "type": "library",
            "bom-ref": purl,
            "name": crate["name"],
            "version": crate["version"],
            "purl": purl,
            "licenses": _licence((crate["license"] or "").replace("/", " OR ")),
        }
        checksum = sums.get((crate["name"], crate["version"]))
        if checksum:
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        found.append(component)
    return found


def python(wanted: list[str]) -> tuple[list[Component], dict[str, list[str]]]:
    """Python packages that `wanted` comes to, without extras, and which of them wants which."""
    todo, by_name, wants = [_name(each) for each in wanted], dict[str, Component](), dict[str, list[str]]()
    edges: dict[str, list[str]] = {}
    while todo:
        name = todo.pop()
        if name in by_name:
            continue
        of = metadata.distribution(name)
        purl = f"pkg:pypi/{name}@{of.version}"
        text = of.metadata.get("License-Expression") or _classified(of.metadata) or of.metadata.get("License") or ""
        by_name[name] = {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": of.version,
            "purl": purl,
            "licenses": _licence(text),
            "properties": [{"name": "wirespeed:version", "value": "of the environment; not pinned"}],
        }
        edges[name] = [_name(each) for each in of.requires or [] if _holds(each)]
        todo += edges[name]
    for name, others in edges.items():
        wants[ref(by_name[name])] = sorted({ref(by_name[each]) for each in others})
    return [by_name[name] for name in sorted(by_name)], wants


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", Requirement(requirement).name).lower()


def _holds(requirement: str) -> bool:
    marker = Requirement(requirement).marker
    return marker is None or marker.evaluate({"extra": ""})


def _same(name: str, wanted: list[str]) -> bool:
    return name in {_name(each) for each in wanted}


def _classified(of: metadata.PackageMetadata) -> str:
    found = [each for each in of.get_all("Classifier") or [] if each.startswith("License ::")]
    return found[0].rpartition(" :: ")[2] if found else ""


def _licence(text: str) -> list[Component]:
    """A licence as an expression of SPDX's where it is one, or by its name."""
    first = text.strip().splitlines()[0][:120] if text.strip() else ""
    if not first:
        return []
    if re.fullmatch(
        r"[A-Za-z0-9.+-]+( (AND|OR|WITH) \(?[A-Za-z0-9.+-]+\)?|[()])*", first.replace("(", "").replace(")", "")
    ):
        return [{"expression": first}]
    return [{"license": {"name": first}}]


if __name__ == "__main__":
    main()
