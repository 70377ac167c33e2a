"""Parts of both kinds of session: their base class, methods for whole tables, and threads."""
