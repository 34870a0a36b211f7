"""The paper's experiments, each a set of ordinary runs with one table and one figure."""
