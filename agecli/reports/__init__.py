"""Results for people: text tables, the HTML report, figures."""
