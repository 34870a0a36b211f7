"""Write the generated pages: cli.md (from the command line), settings.md (from the settings), the header of models/README.md (from
measured.csv), and model-card.md and security.md (copies of models/README.md and SECURITY.md whose links lead to pages of the
site). A test compares them.

python docs/pages.py
"""

from __future__ import annotations

import enum
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from agecli.cli import app
from agecli.core.config import IMPLIED, OPTIONS, PRESETS, Config
from agecli.core.files import read_csv
from agecli.core.settings import walk

ROOT = Path(__file__).parent.parent
COPIES = {"models/README.md": "docs/model-card.md", "SECURITY.md": "docs/security.md"}
TYPES = {"int": "N", "integer": "N", "float": "NUMBER", "path": "PATH", "file": "PATH", "directory": "PATH"}
NOTE = "<!-- made by python docs/pages.py: change {source} instead -->\n\n"


def pages() -> dict[str, str]:
    """The text of every generated page, by its path in the repository."""
    copies = {target: copy(source, target) for source, target in COPIES.items()}
    return {"docs/cli.md": cli(), "docs/settings.md": settings(), "models/README.md": model_card(), **copies}


# --- cli.md ---------------------------------------------------------------------------------------------------------


def cli() -> str:
    """Every command with its usage, arguments, options by group, and examples."""
    group: Any = typer.main.get_command(app)
    parts = [
        NOTE.format(source="agecli/cli/").rstrip("\n") + "\n",
        "# CLI reference\n",
        "What `agecli COMMAND --help` prints, for all commands. Exit codes: 0 all good; 1 finished, but some inputs failed; "
        "2 wrong use or settings; 3 something needed is missing (weights, data, an extra); 130 interrupted.\n",
        "| command | |\n|---|---|",
        *(f"| [`{name}`](#agecli-{name}) | {summary(command)} |" for name, command in group.commands.items()),
        "",
    ]
    for name, command in group.commands.items():
        parts += section(f"agecli {name}", command, "##")
        for inner, sub in getattr(command, "commands", {}).items():
            parts += section(f"agecli {name} {inner}", sub, "###")
    return "\n".join(parts).rstrip() + "\n"


def summary(command: Any) -> str:
    """The first sentence of a command's help."""
    return cell(re.split(r"(?<=\.)\s|\n\n", command.help)[0])


def section(path: str, command: Any, heading: str) -> list[str]:
    """One command as Markdown."""
    usage = " ".join([path, *(["COMMAND"] if hasattr(command, "commands") else ["[OPTIONS]"]), *arguments(command)])
    text, examples = split_examples(command.help, command.epilog)
    parts = [f"{heading} {path}\n", text + "\n", f"```\n{usage}\n```\n"]
    for panel, parameters in by_panel(command.params).items():
        parts += [f"**{panel}**\n", "| | | default |\n|---|---|---|", *map(row, parameters), ""]
    if examples:
        parts += ["Examples:\n" if len(examples) > 1 else "Example:\n", "```bash", *examples, "```\n"]
    return parts


def arguments(command: Any) -> Iterator[str]:
    """The positional arguments of a command, as in its usage."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = parameter.name.upper() + ("..." if parameter.nargs != 1 else "")
            yield name if parameter.required else f"[{name}]"


def split_examples(text: str, epilog: str | None) -> tuple[str, list[str]]:
    """The help without its example, as Markdown, and the examples of help and epilog."""
    text, _, example = text.partition("Example: ")
    examples = [line for line in (epilog or "").splitlines() if line.strip() and line != "Examples:"]
    return markdown(text), [*([" ".join(example.split())] if example else []), *examples]


def markdown(text: str) -> str:
    """Paragraphs of a docstring, each on one line; what looks like a tag is written as code."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")]
    return re.sub(r"(?<!`)(\S*<\w+>\S*?)([,.]?)(?=\s|$)", r"`\1`\2", "\n\n".join(paragraphs))


def by_panel(parameters: list[Any]) -> dict[str, list[Any]]:
    """Arguments and options under the heading that --help shows them, in its order."""
    panels: dict[str, list[Any]] = {}
    for parameter in parameters:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
        panels.setdefault(getattr(parameter, "rich_help_panel", None) or usual, []).append(parameter)
    return panels


def row(parameter: Any) -> str:
    """One argument or option: its names and what it takes, its meaning, its default."""
    names = [parameter.name.upper()] if parameter.param_type_name == "argument" else parameter.opts
    names = [*names, *parameter.secondary_opts]
    takes = "" if getattr(parameter, "is_flag", False) or parameter.param_type_name == "argument" else kind(parameter)
    shown = ", ".join(f"`{name}`" for name in names) + (f" `{takes}`" if takes else "")
    meaning = (parameter.help or "") + names_of_choice(parameter) + bounds(parameter.type)
    return f"| {cell(shown)} | {cell(meaning)} | {cell(default(parameter))} |"


def kind(parameter: Any) -> str:
    """What an option takes: its metavar, or a word for its type."""
    usual = "NAME" if getattr(parameter.type, "choices", None) else "TEXT"
    return str(parameter.metavar or TYPES.get(parameter.type.name.split()[0].lower(), usual))


def names_of_choice(parameter: Any) -> str:
    """The names that an option takes, if it is a choice."""
    names = [str(getattr(choice, "value", choice)) for choice in getattr(parameter.type, "choices", None) or ()]
    return " One of: " + ", ".join(f"`{name}`" for name in names) + "." if names else ""


def bounds(type_: Any) -> str:
    """The range of a number, as a sentence."""
    low, high = getattr(type_, "min", None), getattr(type_, "max", None)
    if low is None and high is None:
        return ""
    words = [f"at least {low}" if low is not None else "", f"at most {high}" if high is not None else ""]
    return f" ({', '.join(word for word in words if word)})"


def default(parameter: Any) -> str:
    """The default of an option as --help shows it; empty if it has none."""
    if parameter.required:
        return "required"
    shown = getattr(parameter, "show_default", None)
    if isinstance(shown, str):
        return shown
    value = parameter.default() if callable(parameter.default) else parameter.default
    value = value.value if isinstance(value, enum.Enum) else value
    if value is None or value is False or value in ("", [], ()):
        return ""
    return "on" if value is True else f"`{value}`"


def cell(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


# --- settings.md ----------------------------------------------------------------------------------------------------


def settings() -> str:
    """Every setting with its meaning, unit, bounds, default, and what changes it."""
    sections: dict[str, list[str]] = {}
    for name, description, value in walk(Config()):
        head = name.rpartition(".")[0]
        line = [f"`{name}`{option(name)}", description.about + choices(description), description.unit]
        line += [str(description.bounds), code(value), ", ".join(changes(name, value))]
        sections.setdefault(head, []).append("| " + " | ".join(map(cell, line)) + " |")
    parts = [
        NOTE.format(source="agecli/core/config.py").rstrip("\n") + "\n",
        "# Settings reference\n",
        "Every setting of `agecli train`: `--set forest.depth=7` for one of them, `--config FILE.toml` for many, and "
        "`agecli info --settings --preset paper > config.toml` for a file with all. The settings of a run are in its "
        "`config.toml` and in its checkpoints. The preset `modern` has the defaults of this page; the last column says what "
        "the preset `paper`, or a model of the paper's tables (`--model`), sets instead.\n",
    ]
    for head, rows in sections.items():
        parts += [f"## {head or 'The model'}\n"] + ([about(head) + "\n"] if head else [])
        parts += ["| setting | meaning | unit | bounds | default | changed by |\n|---|---|---|---|---|---|", *rows, ""]
    return "\n".join(parts).rstrip() + "\n"


def about(head: str) -> str:
    """The docstring of a section's dataclass."""
    return " ".join(str(type(getattr(Config(), head)).__doc__).split())


def option(name: str) -> str:
    """The short option of a setting, if it has one."""
    short = [short for short, dotted in OPTIONS.items() if dotted == name]
    return f" (`--{short[0].replace('_', '-')}`)" if short else ""


def choices(description: Any) -> str:
    """The names that a choice takes."""
    return ": " + ", ".join(f"`{choice}`" for choice in description.choices) if description.choices else ""


def changes(name: str, value: Any) -> Iterator[str]:
    """What presets and models set instead of the default."""
    for preset, config in PRESETS.items():
        other = {known: changed for known, _, changed in walk(config)}[name]
        if other != value:
            yield f"preset {preset}: {code(other)}"
    for model, implied in IMPLIED.items():
        if name in implied and implied[name] != value:
            yield f"--model {model}: {code(implied[name])}"


def code(value: Any) -> str:
    """A value as in TOML, in code font."""
    return f"`{json.dumps(value, ensure_ascii=False)}`"


# --- models/README.md --------------------------------------------------------------------------------------------------

SETS = {
    "utkface": "UTKFace",
    "aaf": "All-Age-Faces",
    "appa": "APPA-REAL",
    "wiki": "IMDB-WIKI (WIKI)",
    "fgnet": "FG-NET",
}
MEASURED = {"mae": "MAE in years", "cs5": "CS@5", "bias": "bias in years", "coverage": "coverage of the 90 % interval"}


def model_card() -> str:
    """The model card with its YAML header in the format of the Hugging Face Hub."""
    return "\n".join(["---", *hub_header(), "---", "", body((ROOT / "models/README.md").read_text(encoding="utf-8"))])


def hub_header() -> Iterator[str]:
    """Licence, library and tags, and `model-index`: what was measured on all faces of each set."""
    yield from ("license: other", "license_name: agecli-research-only-weights", "license_link: LICENSE")
    yield from ("library_name: agecli", "pipeline_tag: image-classification", "tags:")
    yield from (f"  - {tag}" for tag in ("age-estimation", "face", "random-forest", "onnx", "safetensors"))
    yield from ("metrics:", "  - mae", "model-index:", "  - name: agecli-default", "    results:")
    for row in read_csv(ROOT / "models/measured.csv"):
        if row["by"] != "all":
            continue
        yield from ("      - task:", "          type: image-classification", "          name: age estimation")
        yield from ("        dataset:", f"          type: {row['data']}")
        yield from (f"          name: {SETS.get(row['data'], row['data'])}", "        metrics:")
        for metric, name in MEASURED.items():
            yield from (f"          - type: {metric}", f"            name: {name}", f"            value: {row[metric]}")


def body(text: str) -> str:
    """A page without its YAML header."""
    return re.sub(r"\A---\n.*?\n---\n+", "", text, flags=re.S)


# --- copies ---------------------------------------------------------------------------------------------------------


def copy(source: str, target: str) -> str:
    """A page from elsewhere in the repository, without YAML header, its links relative to docs/; links to files that are no page
    of the site become the file's name.
    """
    text = body((ROOT / source).read_text(encoding="utf-8"))

    def link(match: re.Match[str]) -> str:
        label, address = match[1], match[2]
        if re.match(r"[a-z]+:|#", address):
            return match[0]
        path, _, anchor = posixpath.normpath(posixpath.join(posixpath.dirname(source), address)).partition("#")
        path = COPIES.get(path, path)
        if not path.startswith("docs/"):
            return f"`{path}`"
        return f"[{label}]({posixpath.relpath(path, posixpath.dirname(target))}{'#' + anchor if anchor else ''})"

    return NOTE.format(source=source) + re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def main() -> None:
    """Write the pages."""
    for path, text in pages().items():
        (ROOT / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
