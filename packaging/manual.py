"""Manual pages and completions of `wirespeedd`, out of its own `--help` and its reference page.

What the program says of its options and what docs/reference/wirespeedd.md says of settings, metrics and health stand in
one place each; these pages are made of them when a package is built.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference" / "wirespeedd.md"
EXIT_CODES = (
    ("0", "Done."),
    ("1", "The machine: all is put back, or the journal says what is not."),
    ("2", "The configuration or the command line."),
    ("3", "The watchdog."),
)


@dataclass(frozen=True)
class Option:
    """An option: `--config`, `FILE`, and what it does."""

    name: str
    value: str
    words: str
    values: tuple[str, ...] = ()
    """Those that it takes, where the program lists them."""

    @property
    def short(self) -> str:
        """Its first sentence, without marks that a shell may take for its own."""
        first = re.split(r"(?<=[a-z])\. | \[", self.words)[0]
        return re.sub(r"['`\[\]:]", "", first)


@dataclass(frozen=True)
class Command:
    """A command with its options; the program itself has no name."""

    name: str
    words: str
    options: tuple[Option, ...]


def commands(program: Path) -> list[Command]:
    """What `--help` tells of a program and of each of its commands. Raises ValueError where it tells nothing known."""
    whole = _help(program)
    names = re.findall(r"^  (\w[\w-]*)  +(.+)$", _section(whole, "Commands"), re.MULTILINE)
    if not names:
        raise ValueError(f"{program} --help: no commands are found in it: {whole[:200]!r}")
    found = [Command("", whole.strip().splitlines()[0], _options(whole))]
    for name, words in names:
        if name != "help":
            found.append(Command(name, words, _options(_help(program, name))))
    return found


def program_page(program: Path, version: str, date: str) -> str:
    """wirespeedd(8)."""
    all_ = commands(program)
    lines = [
        _title("WIRESPEEDD", 8, version, date),
        ".SH NAME",
        f"wirespeedd \\- {_text(all_[0].words[:1].lower() + all_[0].words[1:])}",
        ".SH SYNOPSIS",
        ".B wirespeedd\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR",
        ".SH DESCRIPTION",
        "Observes a machine once an interval, decides with the policy that was simulated, and sets the ways of its\n"
        "last-level cache for packet cores and devices. Without\n.B run --apply\nit only says what it would do.\n"
        "Whatever ends it, everything is put back.",
        ".SH COMMANDS",
    ]
    common = {option.name for option in all_[0].options}
    for command in all_[1:]:
        lines += [".TP", f".B {_text(command.name)}", _text(command.words) + "."]
        for option in command.options:
            if option.name not in common:
                lines += [".RS", ".TP", _flag(option), _text(option.words), ".RE"]
    lines.append(".SH OPTIONS")
    for option in all_[0].options:
        lines += [".TP", _flag(option), _text(option.words)]
    lines.append(".SH EXIT STATUS")
    for code, words in EXIT_CODES:
        lines += [".TP", f".B {code}", _text(words)]
    lines += [".SH METRICS", *_markdown(_part("Metrics")), ".SH HEALTH", *_markdown(_part("Health"))]
    lines += [".SH FILES"]
    for path, words in (
        ("/etc/wirespeedd.toml", "The configuration: wirespeedd.toml(5)."),
        ("/usr/share/doc/wirespeedd/examples/wirespeedd.toml", "One to begin with."),
        ("/var/lib/wirespeedd", "Journal and lock: what is put back after a crash."),
        ("/usr/share/wirespeedd", "A board for Grafana, and alerts for Prometheus."),
    ):
        lines += [".TP", f".I {path}", words]
    lines += [".SH SEE ALSO", ".BR wirespeedd.toml (5),\n.BR systemctl (1)"]
    return "\n".join(lines) + "\n"


def configuration_page(version: str, date: str) -> str:
    """wirespeedd.toml(5)."""
    return (
        "\n".join(
            [
                _title("WIRESPEEDD.TOML", 5, version, date),
                ".SH NAME",
                "wirespeedd.toml \\- what wirespeedd may set, and what it judges by",
                ".SH DESCRIPTION",
                *_markdown(_part("Configuration")),
                ".SH EXAMPLES",
                "/usr/share/doc/wirespeedd/examples/wirespeedd.toml has every part with its words.",
                ".SH SEE ALSO",
                ".BR wirespeedd (8)",
            ]
        )
        + "\n"
    )


def bash(program: Path) -> str:
    """Completion for bash."""
    all_ = commands(program)
    names = " ".join(command.name for command in all_[1:])
    cases = "\n".join(
        f"        {command.name}) words='{' '.join(option.name for option in command.options)}' ;;"
        for command in all_[1:]
    )
    values = "\n".join(
        f"        {option.name}) mapfile -t COMPREPLY < <(compgen -W '{' '.join(option.values)}' -- \"$word\"); return ;;"
        for option in {o.name: o for command in all_ for o in command.options}.values()
        if option.values
    )
    return f"""# Completion of wirespeedd for bash
_wirespeedd() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command='' words each
    case $before in
        --config) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
        --log) mapfile -t COMPREPLY < <(compgen -W 'error warn info debug' -- "$word"); return ;;
{values}
    esac
    for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case " {names} " in *" $each "*) command=$each ;; esac
    done
    case $command in
{cases}
        *) words='{names} {" ".join(option.name for option in all_[0].options)}' ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -F _wirespeedd wirespeedd
"""


def zsh(program: Path) -> str:
    """Completion for zsh."""
    all_ = commands(program)
    quoted = {command.name: command.words.replace("'", "").replace("`", "").replace(":", "\\:") for command in all_}
    names = "\n".join(f"        '{command.name}:{quoted[command.name]}'" for command in all_[1:])
    flags = "\n".join(
        f"        '{option.name}[{option.short}]"
        + {"": "'", "FILE": ":file:_files'", "LEVEL": ":level:(error warn info debug)'"}.get(
            option.value, f":value:{'(' + ' '.join(option.values) + ')' if option.values else ''}'"
        )
        + " \\"
        for option in {o.name: o for command in all_ for o in command.options}.values()
    )
    return f"""#compdef wirespeedd
_wirespeedd() {{
    local -a commands=(
{names}
    )
    _arguments \\
{flags}
        '1:command:(({" ".join(f"{c.name}" for c in all_[1:])}))'
}}
_wirespeedd "$@"
"""


def fish(program: Path) -> str:
    """Completion for fish."""
    all_ = commands(program)
    lines = ["# Completion of wirespeedd for fish"]
    for command in all_[1:]:
        words = command.words.replace("'", "")
        lines.append(f"complete -c wirespeedd -f -n __fish_use_subcommand -a {command.name} -d '{words}'")
        for option in command.options:
            files = " -r -F" if option.value == "FILE" else " -x" if option.value else ""
            lines.append(
                f"complete -c wirespeedd -n '__fish_seen_subcommand_from {command.name}' "
                f"-l {option.name.removeprefix('--')}{files} -d '{option.short}'"
            )
    return "\n".join(lines) + "\n"


def _help(program: Path, *of: str) -> str:
    done = subprocess.run([program, *of, "--help"], capture_output=True, text=True, check=True, timeout=30)
    return done.stdout


def _section(text: str, name: str) -> str:
    found = re.search(rf"^{name}:\n((?:(?: .*)?(?:\n|\Z))+)", text, re.MULTILINE)
    return found[1] if found else ""


def _options(text: str) -> tuple[Option, ...]:
    """Options in either form of clap's: words behind an option, or below it with the values that it takes."""
    found: list[Option] = []
    head = re.compile(r"^ +(?:-\w, )?(--[\w-]+)(?: <(\w+)>)?(?:  +(.+))?$")
    for line in _section(text, "Options").splitlines():
        begins = head.match(line)
        if begins:
            found.append(Option(begins[1], begins[2] or "", begins[3] or ""))
        elif found and line.strip():
            last, words, value = found[-1], line.strip(), re.match(r"^ *- ([\w-]+):\s+(.*)$", line)
            words = "" if words == "Possible values:" else f"{value[1]}: {value[2]}." if value else words
            values = (*last.values, value[1]) if value else last.values
            stop = "." if value and last.words[-1:].isalnum() else ""
            found[-1] = Option(last.name, last.value, f"{last.words}{stop} {words}".strip(), values)
    return tuple(found)


def _part(name: str) -> str:
    """A section of the reference page. Raises ValueError where it has none."""
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{REFERENCE}: has no section {name}, which the manual page is made of")
    return found[1].strip()


def _markdown(text: str) -> list[str]:
    """Paragraphs and tables as roff; a row of a table is a term, and what is said of it."""
    lines: list[str] = []
    for block in re.split(r"\n\n+", text):
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines() if line.startswith("|")]
        if not rows:
            lines += [".PP", _text(" ".join(block.split()))]
            continue
        for row in rows[2:]:
            cells = [" ".join(cell.split()) for cell in row]
            default = f"Default {cells[1]}. " if len(cells) == 3 and cells[1] else ""
            lines += [".TP", f".B {_text(cells[0])}", _text(default + cells[-1]) or "\\&"]
    return lines


def _text(text: str) -> str:
    """Text as roff has it: links by their words, code in bold, no line that reads as a request."""
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).replace("\\", "\\e").replace("-", "\\-")
    plain = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", plain).replace("…", "...")
    return re.sub(r"^([.'])", r"\\&\1", plain, flags=re.MULTILINE)


def _flag(option: Option) -> str:
    value = f" \\fI{option.value}\\fR" if option.value else ""
    return f"\\fB{_text(option.name)}\\fR{value}"


def _title(name: str, section: int, version: str, date: str) -> str:
    return f'.TH {name} {section} "{date}" "wirespeed {version}"'
