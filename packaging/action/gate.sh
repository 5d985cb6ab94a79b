#!/usr/bin/env bash
# Compares $SCENARIO with $BASELINE, judges the lines of $FAIL_IF, and leaves pages in $OUT; the exit code is that of
# `wirespeed compare`: 0 fine, 1 a condition fails or is open, 2 bad input or
# different traffic, unless $DIFFERENT_TRAFFIC is `judge`. Its 4, a condition that cannot be told, is a warning and 0, and
# 1 where $UNDECIDED is `fail`.
set -euo pipefail

fault() {
    # A line break would end the command of the workflow.
    echo "::error title=wirespeed gate::${1//$'\n'/ }" >&2
    exit 2
}

scenario=${SCENARIO:?names what is judged}
baseline=${BASELINE:-git:origin/main}
out=${OUT:-wirespeed-gate}
undecided=${UNDECIDED:-warn}
[[ $undecided == warn || $undecided == fail ]] || fault "undecided: $undecided: is neither warn nor fail"
different=${DIFFERENT_TRAFFIC:-refuse}
[[ $different == refuse || $different == judge ]] || fault "different-traffic: $different: is neither refuse nor judge"
mkdir -p "$out"

if [[ $baseline == git:* ]]; then
    ref=${baseline#git:}
    [[ -f $scenario ]] || fault "baseline $baseline: $scenario is no file of the repository (name a baseline of its kind)"
    folder=$(dirname "$scenario")
    # Beside the scenario: files that it names are found from there.
    before=$(mktemp -p "$folder" .baseline-XXXXXX.toml)
    trap 'rm -f "$before"' EXIT
    git rev-parse --verify --quiet --end-of-options "$ref^{commit}" >/dev/null ||
        fault "baseline $baseline: no such commit here (actions/checkout wants fetch-depth: 0)"
    git show "$ref:./$scenario" >"$before" ||
        fault "baseline $baseline: $ref has no $scenario (a new scenario has no baseline: name another)"
    baseline=$before
fi

options=()
while IFS= read -r line; do
    line=${line%$'\r'}
    [[ -z ${line//[[:space:]]/} ]] || options+=(--set "$line")
done <<<"${SETTINGS:-}"
while IFS= read -r line; do
    line=${line%$'\r'}
    [[ -z ${line//[[:space:]]/} ]] || options+=(--fail-if "$line")
done <<<"${FAIL_IF:-}"
[[ $different == refuse ]] || options+=(--different-traffic)

code=0
wirespeed compare "$baseline" "$scenario" "${options[@]}" --out "$out" --force --junit "$out/junit.xml" \
    >"$out/comparison.txt" || code=$?
cat "$out/comparison.txt"

if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then
    {
        echo '```text'
        # A fence within the text would end this one.
        # shellcheck disable=SC2016
        sed 's/```/` ` `/g' "$out/comparison.txt"
        echo '```'
    } >>"$GITHUB_STEP_SUMMARY"
fi
if [[ -n ${GITHUB_OUTPUT:-} ]]; then
    echo "report=$out/comparison.html" >>"$GITHUB_OUTPUT"
    echo "junit=$out/junit.xml" >>"$GITHUB_OUTPUT"
fi
if ((code == 4)); then
    words="a condition cannot be told: its half-width is too wide; more packets (run.packets) decide"
    if [[ $undecided == fail ]]; then
        echo "::error title=wirespeed gate::$words (undecided: fail)" >&2
        exit 1
    fi
    echo "::warning title=wirespeed gate::$words" >&2
    exit 0
fi
exit "$code"
