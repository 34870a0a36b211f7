"""What the documents say is true: every name in them exists, every label in the code is explained."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from agecli.cli import app
from agecli.core.config import Config, settings
from agecli.core.version import __version__

ROOT = Path(__file__).parent.parent
EQUATIONS = (ROOT / "docs/equations.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`(?:eqn|fig):.*?) \| .*? \| `(agecli\.\S+)` \| `(tests/\S+)` \|$", EQUATIONS, re.M)


def resolve(name: str) -> object:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(f"{name} can't be imported")


def test_the_table_of_equations_is_read() -> None:
    assert len(ROWS) == EQUATIONS.count("\n| `eqn:") + EQUATIONS.count("\n| `fig:") > 20


@pytest.mark.parametrize(("label", "function", "test"), ROWS)
def test_each_equation_has_its_function_and_its_test(label: str, function: str, test: str) -> None:
    assert callable(resolve(function)), label
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_each_label_in_the_code_stands_in_the_table() -> None:
    known = set(re.findall(r"(?:eqn|fig):\w+", EQUATIONS))
    used = {
        label
        for folder in ("agecli", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for label in re.findall(r"(?:eqn|fig):[a-zA-Z_]+", path.read_text(encoding="utf-8"))
        if path != Path(__file__)
    }
    assert used
    assert used <= known


PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "models/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
OTHERS = {  # not agecli's options
    *("--read-only", "--tmpfs", "--cap-drop", "--security-opt", "--env", "--data-binary"),  # podman and curl
    *("--array", "--cpus-per-task", "--job-name", "--mem", "--mem-per-cpu", "--ntasks", "--requeue"),  # SLURM
    *("--memory-limit", "--nthreads", "--scheduler-file"),  # Dask
    *("--nproc-per-node", "--nnodes", "--max-restarts", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id"),  # torchrun
    "--help",
    "--version",
    "--install-completion",
    "--cov",
    "--check",
    "--strict",  # zensical and twine
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_option_and_file_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = {
        *(command.name or command.callback.__name__ for command in app.registered_commands if command.callback),
        *(group.name for group in app.registered_groups),
    }
    assert set(re.findall(r"(?:^|`|&& |\| )agecli ([a-z]+)\b", text, re.M)) <= commands
    options = set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", text))
    scripts = [*ROOT.glob("agecli/cli/*.py"), *ROOT.glob("models/recipe/*.py"), *ROOT.glob("benchmarks/**/*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in [*scripts, *ROOT.glob("docs/*.py")])
    group: Any = typer.main.get_command(app)
    commands_and_plots = [*group.commands.values(), *group.commands["plot"].commands.values()]
    known = {name for command in commands_and_plots for parameter in command.params for name in parameter.opts}
    for option in options - OTHERS:
        assert option in known or f'"{option}"' in source, option


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_python_file_and_module_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"\b((?:agecli|tests|benchmarks|docs|models)/[\w/]+\.py)\b", text):
        assert (ROOT / name).is_file(), name
    for name in re.findall(r"python -m (benchmarks[\w.]*)", text):
        assert importlib.util.find_spec(name), name
    for name in re.findall(r"`(agecli(?:\.[a-z_]+){2,}(?:\.\w+)?)`", text):
        resolve(name)


def test_each_name_that_the_guide_to_extensions_mentions_is_in_the_code() -> None:
    guide = (ROOT / "docs/extend.md").read_text(encoding="utf-8").split("## Add a data set")[1]
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "agecli").rglob("*.py"))
    names = set(re.findall(r"`([A-Za-z_]+)`", guide))
    assert {"PARSERS", "METADATA", "DETECTORS", "SPECS", "COLUMNS"} <= names
    for name in names:
        assert re.search(rf"(^|class |def ){name}\b", source, re.M) or f"    {name}" in source, name


LINKING = sorted({*PAGES, *ROOT.glob("*.md")})


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_to_a_file_and_to_a_heading_in_it(page: Path) -> None:
    """External addresses are checked by their form only: the tests make no connection."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for address in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", address):
            assert re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(/[^\s<>\"]*)?", address), address
            continue
        name, _, anchor = address.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), address
        assert not anchor or anchor in anchors(target), address


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them: the rules agree on what is used here."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = [re.sub(r"[`*]", "", heading) for heading in re.findall(r"^#+ (.*)$", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_page_of_the_docs_is_in_the_navigation_once() -> None:
    listed = re.findall(r'= "([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))


def test_the_generated_pages_are_fresh() -> None:
    for path, text in generated_pages().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path} is out of date: python docs/pages.py"


def generated_pages() -> dict[str, str]:
    """The pages that docs/pages.py writes, by their paths."""
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs/pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: dict[str, str] = module.pages()
    return made


def test_the_settings_page_has_each_setting_with_its_default_and_what_the_paper_changes() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `")}
    assert set(rows) == dict(settings(Config())).keys()
    assert "| pixels |" in rows["data.size"]
    assert "preset paper: `0.05`" in rows["training.lr"]
    assert "--model regression: `0.001`" not in rows["training.lr"]  # which is the default
    assert "--model dndf: `0.0`" in rows["forest.alpha"]


def test_the_hub_reads_the_model_card_and_its_numbers_are_those_of_the_tables() -> None:
    card = pytest.importorskip("huggingface_hub").ModelCard.load(ROOT / "models/README.md")
    assert card.data.license == "other"
    results = {result.dataset_type: result for result in card.data.eval_results if result.metric_type == "mae"}
    assert set(results) == {"utkface", "aaf", "appa", "wiki", "fgnet"}
    for name, result in results.items():
        row = card.content.split(f"**{name}**")[1].split("| **all** |")[1]  # the first table below the name
        assert f" {float(result.metric_value):.2f} " in row.split("|")[1], name


def test_the_readme_begins_with_a_command_that_works_and_both_ways_to_install() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"```bash\n(.*)\n", readme)[1] == "pip install . && agecli predict docs/example.jpg"  # type: ignore[index]
    assert "\npip install . " in readme
    assert "\npip install '.[train]' " in readme


def test_the_readme_is_short_warns_near_the_top_and_has_the_table_of_the_benchmarks() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    assert readme.index("Don't use them to decide about a person") < readme.index("```")
    table = readme.split("<!-- peers -->\n")[1].split("<!-- /peers -->")[0]
    assert table in (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8"), "copy the table from docs/benchmarks.md"


def test_the_version_is_the_same_wherever_it_is_named() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    releases = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert releases[0] == __version__


MEASURED = [page for page in LINKING if page.name not in ("CHANGELOG.md", "data-sheets.md")]


@pytest.mark.parametrize("page", MEASURED, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_of_numbers_stand_in_a_section_that_names_their_command(page: Path) -> None:
    """A table counts if it has four cells with a decimal or a percentage."""
    for section in re.split(r"^(?=#+ )", page.read_text(encoding="utf-8"), flags=re.M):
        cells = [cell for line in section.splitlines() if line.startswith("|") for cell in line.split("|")]
        numbers = [cell for cell in cells if re.fullmatch(r"\s*\**[+-]?[\d,]+(\.\d+( %|%)?|( %|%))\**\s*", cell)]
        if len(numbers) >= 4:
            assert re.search(r"python (-m [\w.]+|[\w./]+\.py)|agecli (study|train|evaluate|split)\b", section), section[
                :80
            ]


def test_the_ci_runs_the_readmes_test_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "<!-- tests -->" in readme
    assert "<!-- tests -->" in (ROOT / ".ci/run").read_text(encoding="utf-8")
