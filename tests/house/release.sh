#!/usr/bin/env bash
# What is shipped, from end to end: the wheel of the release profile, installed where nothing else is, runs the demo.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make --silent wheel
wheel=$(ls -t dist/*.whl | head -n 1)
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip --disable-pip-version-check --quiet install "$wheel"
cd "$work"
venv/bin/wirespeed demo --out demo
venv/bin/wirespeedd --version
test -s demo/report.html
"$work/venv/bin/python" -c 'import json; assert json.load(open("demo/summary.json"))["carried_mpps"] > 0'
