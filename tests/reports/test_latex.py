"""LaTeX tables: escaped, the best in bold, the spread with ±."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agecli.reports.latex import MEASURES, escape, latex_table

ROWS = [
    {"model": "runs/drf_1", "images": 1002, "mae": 2.4788, "mae_std": 0.2119, "cs5": 0.8633, "bias": -0.44},
    {"model": "50% & more, α ≤ 2", "images": 1002, "mae": 2.61, "mae_std": 0.1, "cs5": 0.8633, "bias": 0.2},
]


def test_the_best_of_a_column_is_bold_and_ties_share_it() -> None:
    lines = latex_table(ROWS, "model", MEASURES, "std over folds").splitlines()
    assert lines[3] == r"Model & Faces & MAE (years) & CS@5 & Bias \\"  # no coverage is known
    assert lines[5] == r"runs/drf\_1 & 1,002 & \textbf{2.48} $\pm$ 0.21 & \textbf{86.3\%} & $-$0.44 \\"
    assert lines[6] == r"50\% \& more, $\alpha$ $\leq$ 2 & 1,002 & 2.61 $\pm$ 0.10 & \textbf{86.3\%} & +0.20 \\"
    assert (lines[2], lines[4], lines[7]) == (r"\toprule", r"\midrule", r"\bottomrule")


def test_special_characters_are_escaped() -> None:
    assert escape(r"a_b\c {x} ~^ #$") == r"a\_b\textbackslash{}c \{x\} \textasciitilde{}\textasciicircum{} \#\$"


def test_greek_letters_are_commands() -> None:
    assert escape("α = 2, T=0, τ=1, Δ") == r"$\alpha$ = 2, T=0, $\tau$=1, $\Delta$"
    assert escape("λ µ") == r"$\lambda$ µ"  # the micro sign is no Greek letter, and LaTeX knows it


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_the_table_compiles(tmp_path: Path) -> None:
    table = latex_table(ROWS, "model", MEASURES, "std over folds")
    (tmp_path / "t.tex").write_text(
        f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}\n{table}\\end{{document}}\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-500:]
