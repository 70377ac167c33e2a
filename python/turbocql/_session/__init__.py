"""The base class of both kinds of session, methods for whole tables, and threads."""
