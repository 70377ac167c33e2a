"""Replaces names of Python arguments in messages by the options of the command that runs.

The library's messages name arguments: `truncate_time=True`, `pass resume=`, `max_errors`. The
command line shows its own options instead: `--truncate-time`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import click

__all__ = ["Options", "options_of", "with_options"]

_ARGUMENTS = {
    "max_errors": ("max_errors", "max_failures"),
    "no_batches": ("batches=False",),
    "no_header": ("header=False",),
    "param": ("values",),
    "resume_if_there": ('resume="auto"',),
    "retry_for": ("retry_for_s",),
    "timeout": ("timeout_s", "connect_timeout_s"),
    "wait": ("wait_s",),
}
"""Maps an option to the arguments that it sets, if their names differ from the option's name. If
the option takes no value, the argument is listed with the value that the option sets."""
_CONNECTION = {"url", "profile", "config", "user", "keyspace", "consistency", "timeout", "wait"}
"""Options whose arguments may also come from a profile or the environment."""

_VALUE = r"""True|False|None|\.\.\.|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[0-9](?:[0-9.]*[0-9])?"""
_MESSAGE = re.compile(
    rf"""
    csv=\{{ ["'](?P<csv>\w+)["']: \s (?P<csv_value>{_VALUE}) \}}
    | (?<![\w.]) (?P<name>[a-z_]+) = (?P<value>{_VALUE}|(?!\w))
    | (?<![\w\\]) (?: "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )
    | (?P<first>\A[a-z]+) (?=:\s|\smust\s|\sis\s|\sand\s)
    | (?<![\w.]) (?P<bare>[a-z]+(?:_[a-z]+)+) (?![\w.=])
    """,
    re.VERBOSE,
)
"""Matches `name=value`, `name=`, a name at the beginning of a message, and names of several words.
It also matches other texts in quotes. These are left unchanged, so no name in them is replaced."""
_PHRASES = {
    "csv={'header': False, 'names': [...]}": ("names", "--no-header and --names"),
    "or as 'table' in a session with a keyspace": ("keyspace", "or as 'table' with --keyspace"),
    "pass keyspace= to connect, or call session.use_keyspace(name)": (
        "keyspace",
        "or pass --keyspace",
    ),
}
"""Maps a phrase of a message to an argument, and to another phrase, which names options. If the
command has an option for the argument, the other phrase replaces the phrase of the message."""
_URL_PARAMETER = re.compile("parameter [0-9]+ of the query is unknown")
_STATEMENT = "; statement: "
"""The text before the statement in a message. The statement is shown unchanged."""


class Options(NamedTuple):
    """The options of a command, by the arguments that they set."""

    by_argument: dict[str, str]
    uncertain: set[str]
    """Arguments that come from a profile or the environment. At the beginning of a message, such an
    argument is not replaced, because the message is about its value in that source."""


def options_of(ctx: click.Context) -> Options:
    """The options of the command that runs."""
    options = Options({}, set())
    for parameter in ctx.command.params:
        if not isinstance(parameter, click.Option):
            continue
        option = max(parameter.opts, key=len)
        name = option.lstrip("-").replace("-", "_")
        arguments = _ARGUMENTS.get(name, (name,))
        options.by_argument.update(dict.fromkeys(arguments, option))
        source = ctx.get_parameter_source(str(parameter.name))
        if name in _CONNECTION and source is not click.core.ParameterSource.COMMANDLINE:
            options.uncertain.update(arguments)
    return options


def with_options(message: str, options: Options | None = None) -> str:
    """Returns the message with options in place of their arguments. By default, the options are
    the options of the running command.
    """
    if options is None:
        ctx = click.get_current_context(silent=True)
        if ctx is None:
            return message
        options = options_of(ctx)
    by_argument, uncertain = options

    def replacement(match: re.Match[str]) -> str:
        text, name, value = match[0], match["name"], match["value"]
        if match["csv"] is not None:
            option = by_argument.get(match["csv"])
            # Python's string literals write a backslash as two. In single quotes, a shell needs
            # only one.
            csv_value = match["csv_value"].replace("\\\\", "\\")
            if csv_value[0] == '"' and "'" not in csv_value:
                csv_value = f"'{csv_value[1:-1]}'"
            return text if option is None else f"{option} {csv_value}"
        if name is None:
            argument = match["first"] or match["bare"]
            is_invalid_setting = match.start() == 0 and argument in uncertain
            return text if is_invalid_setting else by_argument.get(argument, text)
        if text in by_argument:
            return by_argument[text]
        if name not in by_argument:
            return text
        option = by_argument[name]
        return option if value in ("", "True", "...") else f"{option} {value}"

    if _URL_PARAMETER.search(message):
        # The names in this message are the names of the URL's parameters.
        return message
    text, mark, statement = message.partition(_STATEMENT)
    for phrase, (argument, with_dashes) in _PHRASES.items():
        if argument in by_argument:
            text = text.replace(phrase, with_dashes)
    return _MESSAGE.sub(replacement, text) + mark + statement
