"""Text on a terminal does nothing but stand there, whatever is in a file name."""

from __future__ import annotations

import io
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from agecli.core.display import visible
from agecli.reports.tables import write_rows


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(character) == "Cc" for character in shown)
    assert visible(shown) == shown


def test_escape_sequences_are_seen_and_ordinary_names_stay() -> None:
    assert visible("a\x1b]0;title\x07\n\x9b31m\u202egpj.\udc9b") == "a\\x1b]0;title\\x07\\x0a\\x9b31m\\u202egpj.\\x9b"
    assert visible("Café Müller 東京 [red].jpg \udce9") == "Café Müller 東京 [red].jpg \udce9"
    assert visible("one\n\ttwo\x1b", lines=True) == "one\n\ttwo\\x1b"


def test_tables_of_results_take_no_markup_from_names() -> None:
    stream = io.StringIO()
    write_rows([{"name": "[red]a[/red]\x1b[2J.jpg", "count": 3}], ("name", "count"), "table", stream)
    assert "[red]a[/red]\\x1b[2J.jpg" in stream.getvalue()
