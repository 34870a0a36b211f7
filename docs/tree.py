"""Write the tree of the code into docs/design.md: a line for each file, taken from the first line of its docstring.

python docs/tree.py
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DESIGN = ROOT / "docs/design.md"
BEGIN, END = "<!-- tree: python docs/tree.py -->", "<!-- /tree -->"
WIDTH = 26  # of the column with the names of the files


def tree(root: Path = ROOT) -> str:
    """The files of the package `agecli` under root, indented by folder, as a Markdown code block."""
    return "\n".join(["```", *_folder(root / "agecli", ""), "```"])


def _folder(folder: Path, indent: str) -> list[str]:
    """The lines of a package: itself, its modules and data files, then its sub-packages."""
    lines = [_line(f"{indent}{folder.name}/", _summary(folder / "__init__.py"))]
    inner = indent + "  "
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix == ".py" and path.name != "__init__.py":
            lines.append(_line(inner + path.name, _summary(path)))
        elif path.is_file() and path.suffix not in (".py", ".pyc"):
            lines.append(_line(inner + path.name, "data"))
    packages = sorted(path.parent for path in folder.glob("*/__init__.py"))
    return lines + [line for package in packages for line in _folder(package, inner)]


def _line(name: str, text: str) -> str:
    """A name and what it is, in two columns."""
    return f"{name:<{WIDTH}}  {text}"


def _summary(path: Path) -> str:
    """The first sentence of a module's docstring, which may run over two lines."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[a-z)`])\.(?:\s|$)", paragraph)[0].rstrip(".:")


def main() -> None:
    """Replace what is between the marks in docs/design.md."""
    text = DESIGN.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    DESIGN.write_text(f"{before}{BEGIN}\n{tree()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
