"""Values, rows, messages and pages, without a server."""
