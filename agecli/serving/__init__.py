"""The server: an HTTP API and a web page for one model in memory, with limits that make it safe to expose."""
