"""Generates the package's synchronous code from its asynchronous code. `make format` runs this.

With --check, the script writes nothing, and fails with a diff if a file would change. The script
removes `async` and `await`, replaces names, and makes these changes:

- `await op` becomes `op.wait()` if `op` is a native operation. `NATIVE` matches such operations:
  variables named `op`, and results of methods of the native core and of the methods `_start_...`,
  `_advance` and `_trace`.
- `await in_thread(work, argument)` becomes `work(argument)`.
- A statement is left out if its first line ends with `# async only`. Comments directly above it are
  left out too.
- `# sync: code` becomes `code`.
- Texts in `TEXTS` are replaced by their synchronous versions.
"""

from __future__ import annotations

import ast
import difflib
import io
import keyword
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "turbocql"
SCRIPT = "scripts/async_to_sync.py"
RUFF = Path(sys.executable).with_name("ruff")

FILES = {
    "aio.py": "session.py",
    "_session/async_tables.py": "_session/tables.py",
    "_rows/async_pages.py": "_rows/pages.py",
}
"""The files that are generated as a whole: source file to generated file."""
DEFINITIONS = {
    "rows.py": ("rows.py", ["AsyncRows"]),
    "_diagnosis/blocking.py": ("aio.py", ["diagnosis", "diagnose"]),
}
"""Maps a file with generated classes and functions to the source file and the names there."""

NATIVE = re.compile(r"op\Z|self\._core\.|self\._start_|(self|rows|self\._rows)\._(advance|trace)\(")
ONLY_ASYNC = "  # async only"
WORDS = [
    (r" \| AsyncIterable\[Values\]", ""),
    (r"\bCoroutine\[Any, Any, (.+)\](?=:)", r"\1"),
    (r"\bAwaitableRows\b", "Rows"),
    (r"\bAsync(?=(Session|Tables|Rows|Batches|RowIterator|Iterator|EventStream)\b)", ""),
    (r"\b(_?)Async(?=(Pages|ColumnPages|Result)\b)", r"\1Sync"),
    (r"\b_Connecting\b", "Session"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\b__a(?=(enter|exit|iter|next)__)", "__"),
    (r"\basync_(?=(tables|pages|only_row)\b)", ""),
    (r"\]\[turbocql\.aio\.", "][turbocql.session."),
    (r"\bturbocql\.aio\.", "turbocql."),
    (r"`async (?=(for|with)`)", "`"),
]
"""Patterns that are replaced everywhere, in strings and comments too, in this order."""
TEXTS = [
    (
        '''"""The asynchronous API: the methods of the synchronous API, to be awaited.

It works on any event loop, and one wake of the loop handles many completions. The synchronous twin
is [`turbocql.session`][turbocql.session].
"""''',
        '''"""The synchronous API: every method blocks until its result is there.

Blocking calls release the GIL, respond to Ctrl-C, and may be made from any number of threads at
once. The asynchronous twin is [`turbocql.aio`][turbocql.aio].
"""''',
    ),
    (
        """"expected a turbocql.aio.AsyncSession, got {type(session).__name__}; for a Session,"
            " call `turbocql.diagnose(session)`\"""",
        """"expected a turbocql.Session, got {type(session).__name__}; for an AsyncSession, call"
            " `await turbocql.aio.diagnose(session)`\"""",
    ),
    ("steps(session, asynchronous=True)", "steps(session, asynchronous=False)"),
    ("[`diagnosis`][turbocql.aio.diagnosis]", "[`diagnosis`][turbocql.diagnosis]"),
    (
        """
    It may be used from several event loops. As an asynchronous context manager, it closes itself at
    the end of the block.
""",
        """
    It is thread-safe. As a context manager, it closes itself at the end of the block.
""",
    ),
    ("Opens a session: `await` the result, or use it with `async with`.", "Opens a session."),
    (
        """for an unknown one, both
        raised by the call itself. When awaited: `ConnectError` when no session can be opened, for
        example because no contact point answers or there is no such keyspace;
        `AuthenticationError` when the user or the password is refused. `wait_s` is how long
        `connect` waits for a database that starts.
""",
        """for an unknown one, before
        anything is connected; `ConnectError` when no session can be opened, for example because no
        contact point answers or there is no such keyspace; `AuthenticationError` when the user or
        the password is refused. `wait_s` is how long `connect` waits for a database that starts.
""",
    ),
]
"""Asynchronous texts, each of which the sources have exactly once, and their replacements."""


def marked(code: str) -> str:
    """Removes statements marked `# async only`, and makes comments `# sync: code` into code."""
    lines = code.splitlines(keepends=True)
    ends = {
        node.lineno: node.end_lineno or node.lineno
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.stmt)
    }
    for number, line in list(enumerate(lines, 1)):
        if not line.rstrip().endswith(ONLY_ASYNC):
            continue
        if number not in ends:
            raise SystemExit(f"no statement begins here: {line}")
        first = number
        while re.match(r" *# (?!sync: )", lines[first - 2]):
            first -= 1
        lines[first - 1 : ends[number]] = [""] * (ends[number] - first + 1)
    return re.sub(r"(?m)^( *)# sync: ", r"\1", "".join(lines))


class Tokens:
    """The tokens of some code, and the replacements to make in the code."""

    def __init__(self, code: str) -> None:
        self.code = code
        skipped = (tokenize.COMMENT, tokenize.NL)
        tokens = tokenize.generate_tokens(io.StringIO(code).readline)
        self.tokens = [token for token in tokens if token.type not in skipped]
        self.edits: list[tuple[int, int, str]] = []
        self._lines = [0]
        for line in code.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def text(self, index: int) -> str:
        return self.tokens[index].string

    def begin(self, index: int) -> int:
        """Returns the offset of a token in the code."""
        line, column = self.tokens[index].start
        return self._lines[line - 1] + column

    def end(self, index: int) -> int:
        """Returns the offset of the end of a token in the code."""
        line, column = self.tokens[index].end
        return self._lines[line - 1] + column

    def replace(self, begin: int, end: int, text: str = "") -> None:
        self.edits.append((begin, end, text))

    def edited(self) -> str:
        code = self.code
        for begin, end, text in sorted(self.edits, reverse=True):
            code = code[:begin] + text + code[end:]
        return code

    def closing(self, opening: int) -> int:
        """Returns the index of the bracket that closes the bracket at `opening`."""
        depth = 0
        for index in range(opening, len(self.tokens)):
            depth += (self.text(index) in "([{") - (self.text(index) in ")]}")
            if depth == 0:
                return index
        raise SystemExit(f"a bracket is not closed:\n{self.code}")

    def last_of_primary(self, first: int) -> int:
        """Returns the index of the last token of the primary expression that begins at `first`."""
        last = self.closing(first) if self.text(first) == "(" else first
        while self.text(last + 1) in (".", "(", "["):
            last = last + 2 if self.text(last + 1) == "." else self.closing(last + 1)
        return last

    def is_call(self, opening: int) -> bool:
        """Returns whether a parenthesis belongs to a call or a definition."""
        before = self.text(opening - 1) if opening else ""
        is_name = before.isidentifier() and not keyword.iskeyword(before)
        return is_name or before in (")", "]")


def without_await(code: str) -> str:
    """Removes `async`, `await` and `in_thread`, and adds `.wait()` to native operations."""
    tokens = Tokens(code)
    for index, token in enumerate(tokens.tokens):
        if token.type != tokenize.NAME or token.string not in ("async", "await"):
            continue
        tokens.replace(tokens.begin(index), tokens.begin(index + 1))
        if token.string == "async":
            continue
        first, last = index + 1, tokens.last_of_primary(index + 1)
        if tokens.text(first) == "in_thread":
            _call_directly(tokens, first)
        elif NATIVE.match(code[tokens.begin(first) : tokens.end(last)]):
            tokens.replace(tokens.end(last), tokens.end(last), ".wait()")
        opens, closes = index - 1, last + 1
        is_group = tokens.text(opens) == "(" and not tokens.is_call(opens)
        if is_group and tokens.text(closes) == ")":
            tokens.replace(tokens.begin(opens), tokens.end(opens))
            tokens.replace(tokens.begin(closes), tokens.end(closes))
    return tokens.edited()


def _call_directly(tokens: Tokens, first: int) -> None:
    """Replaces `in_thread(work, argument)` by `work(argument)`."""
    tokens.replace(tokens.begin(first), tokens.end(first + 1))
    last_of_work = tokens.last_of_primary(first + 2)
    after = last_of_work + 1
    if tokens.text(after) == ",":
        tokens.replace(tokens.begin(after), tokens.begin(after + 1), "(")
    else:
        tokens.replace(tokens.begin(after), tokens.end(after), "()")


def without_await_in_examples(code: str) -> str:
    """Applies `without_await` to the examples in docstrings."""

    def example(match: re.Match[str]) -> str:
        lines = match[0].splitlines(keepends=True)
        prefixes = [re.match(r" *(>>>|\.\.\.) ", line)[0] for line in lines]  # type: ignore[index]
        bare = "".join(line[len(prefix) :] for prefix, line in zip(prefixes, lines, strict=True))
        edited = without_await(bare).splitlines(keepends=True)
        return "".join(map("".join, zip(prefixes, edited, strict=True)))

    return re.sub(r"(?m)(^ *(>>>|\.\.\.) .*\n)+", example, code)


def synchronous(code: str) -> str:
    """Returns the synchronous version of asynchronous code, not yet formatted."""
    # Placeholders protect the texts of `TEXTS` from the other replacements.
    for number, (text, _) in enumerate(TEXTS):
        code = code.replace(text, f"__text_{number}__")
    code = without_await_in_examples(without_await(marked(code)))
    for pattern, replacement in WORDS:
        code = re.sub(pattern, replacement, code)
    for number, (_, text) in enumerate(TEXTS):
        code = code.replace(f"__text_{number}__", text)
    return code


def ruff(code: str, path: Path, *arguments: str) -> str:
    """Runs ruff on the code for a file, and returns ruff's output.

    Raises: SystemExit, if ruff fails.
    """
    process = subprocess.run(
        [RUFF, *arguments, "--quiet", f"--stdin-filename={path}", "-"],
        input=code,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise SystemExit(f"ruff {' '.join(arguments)}, {path}:\n{process.stdout}{process.stderr}")
    return process.stdout


def generated_file(source: str, target: Path) -> str:
    """Returns the synchronous code that is generated from an asynchronous file."""
    code = (PACKAGE / source).read_text(encoding="utf-8")
    header = f"# Generated from {source} by {SCRIPT}: change that file.\n"
    code = ruff(header + synchronous(code), target, "check", "--fix", "--select=F401,I")
    return ruff(code, target, "format")


def definitions(code: str) -> dict[str, tuple[int, int]]:
    """Returns the first and last line of each class and function, counted from 0."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.parse(code).body if isinstance(node, kinds)]
    return {node.name: (node.lineno - 1, (node.end_lineno or node.lineno) - 1) for node in nodes}


def generated_definitions(target: Path, source: str, names: list[str]) -> str:
    """Generates `names` of `source` anew, and returns the code of `target` with the results."""
    asynchronous = (PACKAGE / source).read_text(encoding="utf-8")
    code = target.read_text(encoding="utf-8")
    for name in names:
        first, last = definitions(asynchronous)[name]
        first_line, *body = asynchronous.splitlines(keepends=True)[first : last + 1]
        definition = synchronous("".join([first_line.replace(ONLY_ASYNC, ""), *body]))
        (new_name,) = definitions(definition)
        lines = code.splitlines(keepends=True)
        first, last = definitions(code)[new_name]
        first -= lines[first - 1].startswith("# Generated from ")
        header = f"# Generated from {name} of {source} by {SCRIPT}: change the source.\n"
        lines[first : last + 1] = [header, definition]
        code = "".join(lines)
    return ruff(code, target, "format")


def generated() -> dict[Path, str]:
    """Returns the new code of all files that this script writes."""
    names = {*FILES, *(source for source, _ in DEFINITIONS.values())}
    sources = [(PACKAGE / name).read_text(encoding="utf-8") for name in names]
    for text, _ in TEXTS:
        if sum(source.count(text) for source in sources) != 1:
            raise SystemExit(f"TEXTS: not exactly once in the sources:\n{text}")
    files = {}
    for source, target in FILES.items():
        files[PACKAGE / target] = generated_file(source, PACKAGE / target)
    for target, (source, names_of_source) in DEFINITIONS.items():
        files[PACKAGE / target] = generated_definitions(PACKAGE / target, source, names_of_source)
    return files


def main(arguments: list[str]) -> int:
    """Writes the files, or with --check compares them. Returns the exit status."""
    changed = False
    for path, code in generated().items():
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if code == before:
            continue
        changed = True
        name = str(path.relative_to(ROOT))
        if "--check" in arguments:
            lines = (before.splitlines(keepends=True), code.splitlines(keepends=True))
            sys.stdout.writelines(difflib.unified_diff(*lines, name, f"{name}, generated"))
        else:
            path.write_text(code, encoding="utf-8")
            print(f"{name} is written")
    return int(changed and "--check" in arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
