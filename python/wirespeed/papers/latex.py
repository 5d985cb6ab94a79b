"""Claims as a table of LaTeX, and texts as LaTeX has to have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wirespeed import quantities as q
from wirespeed.papers import show
from wirespeed.papers.claim import Claim, tally

_ESCAPED: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        # Not every font of LaTeX has these letters.
        "±": r"$\pm$",
        "–": "--",
        "×": r"$\times$",
        "µ": r"\textmu{}",
        **{letter: "\\" + letter for letter in "&%$#_{}"},
    }
)
_HEADS: Final = ("claim", "where", "paper", "ours", "deviation", "tolerance", "kind", "status")
_COLUMNS: Final = "@{}p{0.28\\linewidth}p{0.13\\linewidth}rrrrll@{}"


def escape(text: str) -> str:
    r"""A text with nothing in it that LaTeX would take for a command.

    >>> escape("a & b: 5 % of {x_1} ± 2")
    'a \\& b: 5 \\% of \\{x\\_1\\} $\\pm$ 2'
    """
    return text.translate(_ESCAPED)


def claims(reports: Sequence[tuple[str, str, Sequence[Claim]]]) -> str:
    """A `longtable` of booktabs for each of paper, reading and claims: it may break over pages."""
    parts = ["% Needs \\usepackage{booktabs} and \\usepackage{longtable}."]
    for paper, reading, judged in reports:
        parts += _table(paper, reading, judged)
    return "\n".join(parts) + "\n"


def _table(paper: str, reading: str, judged: Sequence[Claim]) -> list[str]:
    heads = " & ".join(_HEADS) + r" \\"
    label = "".join(c if c.isalnum() or c == "-" else "-" for c in f"{paper}-{reading}")
    return [
        "",
        rf"\begin{{longtable}}{{{_COLUMNS}}}",
        rf"\caption{{{escape(f'{paper}, reading {reading}: {tally(judged)}.')}}}\label{{tab:{label}}}\\",
        rf"\toprule {heads} \midrule \endfirsthead",
        rf"\toprule {heads} \midrule \endhead",
        r"\bottomrule \endfoot",
        *(_row(claim) for claim in judged),
        r"\end{longtable}",
    ]


def _row(claim: Claim) -> str:
    row = claim.expected
    cells = (
        row.claim,
        row.where,
        show.value(row.paper, row.unit),
        show.ours(claim),
        "" if claim.deviation_pct is None else q.change_pct(claim.deviation_pct),
        "" if row.tolerance_pct is None else f"{row.tolerance_pct:g} %",
        row.kind.value,
        claim.status.value,
    )
    return " & ".join(escape(cell) for cell in cells) + r" \\"
