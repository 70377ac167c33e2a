"""The base class of both kinds of session, their methods for whole tables, and their threads."""
