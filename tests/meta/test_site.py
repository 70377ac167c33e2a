"""Checks the documentation pages against the package, without building the site (`make docs`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts.site import front, machines
from tests.meta.sources import ROOT, python_modules

import turbocql

DOCS = ROOT / "docs"
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
LISTED = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)\b", re.split(r"\n(?=\S)", NAV)[0], re.MULTILINE)
PUBLIC = sorted(
    name
    for name in python_modules()
    if name.count(".") < 2 and not any(part.startswith("_") for part in name.split("."))
)
# People read these pages both on the site and in the repository.
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def api_page(module: str) -> Path:
    """Returns the page with the reference of a module."""
    return DOCS / "api" / f"{module.removeprefix('turbocql.')}.md"


def without_fences(page: Path) -> str:
    """Returns a page without its blocks of code."""
    return without_fences_of(page.read_text(encoding="utf-8"))


def without_fences_of(text: str) -> str:
    """Returns Markdown without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def without_code(page: Path) -> str:
    """Returns a page without its blocks of code and its inline code."""
    return re.sub(r"(?<!`)(`+)(?!`)[^\n]+?(?<!`)\1(?!`)", "``", without_fences(page))


def anchors(page: Path) -> set[str]:
    """Returns the anchors that code hosts, such as GitHub, give to the headings of a page."""
    headings = re.findall(r"^#+ (.*)", without_fences(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_nav_once() -> None:
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert len(LISTED) == len(set(LISTED))
    # The build of the site makes these two pages from CHANGELOG.md and DESIGN.md.
    assert set(LISTED) == pages | {"changelog.md", "design/index.md"}


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_module_has_a_page(module: str) -> None:
    page = api_page(module)
    assert page.exists(), f"{page.relative_to(ROOT)}, and a line in mkdocs.yml"
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {module}\n")
    assert re.findall(r"^::: (\S+)$", text, re.MULTILINE) == [module]


def test_there_are_no_pages_of_other_modules() -> None:
    assert set((DOCS / "api").iterdir()) == {api_page(module) for module in PUBLIC}


def test_the_packages_page_names_all_that_it_offers() -> None:
    """docs/api/turbocql.md links each name to the page of its module, which has the docstring."""
    text = api_page("turbocql").read_text(encoding="utf-8")
    named = set(re.findall(r"\[(\w+)\]\[turbocql\.[\w.]+\]|`(__version__)`", text))
    names = {one or other for one, other in named}
    assert set(turbocql.__all__) <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_work_where_the_sources_are_read(page: Path) -> None:
    text = without_code(page)
    pictures = re.findall(r'\b(?:src|srcset)="([^"]+)"', text)
    for target in [*re.findall(r"\]\(([^)\s]+)\)", text), *pictures]:
        # If a link has the web address of a file in this repository, the path of this file is
        # checked.
        target = re.sub(rf"^{re.escape(front.REPOSITORY)}/(?:blob|raw)/main/", f"{ROOT}/", target)
        if re.match(r"https?://", target):
            continue
        place, _, anchor = target.partition("#")
        found = (page.parent / place).resolve() if place else page
        assert found.is_relative_to(ROOT), target
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target
    if page.parent != DOCS / "api":
        # Only the site resolves links to names of the package.
        assert not re.search(r"\]\[[\w.]*\]", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_read_the_same_on_the_site(page: Path) -> None:
    """The Markdown of the site hides unknown tags, and requires an empty line before a list.

    Code hosts do not require this line. So its absence cannot be seen there, and this test checks
    for it.
    """
    text = without_code(page)
    assert not re.search(r"<(?!picture>)\w[\w ]*>", text), (
        "a tag, which readers do not see: write &lt;"
    )
    before = ""
    for line in text.splitlines():
        if re.match(r"([-*]|\d+\.) ", line) and before:
            inside = re.match(r"([-*]|\d+\.) | {2,}", before)
            assert inside, f"an empty line belongs before the list: {line}"
        before = line


def test_the_tests_that_pages_name_exist() -> None:
    """Pages name tests that check what they say. These tests must exist."""
    found = 0
    every = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py"))
    for page in PAGES:
        for line in without_fences(page).splitlines():
            files = [ROOT / name for name in re.findall(r"`(tests/[\w/]+\.py)`", line)]
            assert all(file.is_file() for file in files), (page.name, line)
            sources = "".join(file.read_text(encoding="utf-8") for file in files) or every
            for name in re.findall(r"`(test_\w+)`", line):
                assert f"def {name}(" in sources, (page.name, name)
                found += 1
    assert found > 10


def test_pages_say_how_to_install_turbocql_today() -> None:
    begun = []
    for page in front.PAGES:
        text = page.read_text(encoding="utf-8")
        is_readme = page.name == "README.md"
        assert front.written(text, is_readme=is_readme) == text, "python scripts/site/front.py"
        begun += [page.name] if "<!-- install -->\n\n```\npip install " in text else []
    assert begun == ["README.md", "index.md", "install.md", "quickstart.md"]


def test_a_release_changes_the_install_line_and_the_links_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    released = front.written(text, is_readme=True, released=True)
    assert "\npip install turbocql\n" in released
    assert "\npip install .\n" not in released
    line = "`pip install '.[cli]'`"
    assert front.written(line, is_readme=False, released=True) == "`pip install 'turbocql[cli]'`"
    links = re.findall(r"\]\(([^)]+)\)", without_fences_of(released))
    assert f"{front.REPOSITORY}/blob/main/docs/columns.md" in links
    assert all(link.startswith("https://") for link in links)
    assert front.written(released, is_readme=True, released=False) == front.written(
        text, is_readme=True, released=False
    )


def test_the_readme_is_read_in_a_minute() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100
    program, *_ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(program.splitlines()) == 12
    assert max(map(len, program.splitlines())) <= 88


def nav_of(pages: dict[str, str]) -> list[dict[str, list[object]]]:
    """Returns a navigation of two groups.

    The first group has one page with a title. The second group has an inner group with all other
    pages.
    """
    first, *rest = pages
    return [{"Start": [{"Home": first}]}, {"More": [{"Inner": list(rest)}]}]


def test_llms_txt_lists_every_page_with_its_first_sentence() -> None:
    made = {"changelog.md": "CHANGELOG.md", "design/index.md": "DESIGN.md"}
    pages = {
        name: (ROOT / made[name] if name in made else DOCS / name).read_text(encoding="utf-8")
        for name in LISTED
    }
    text = machines.llms("turbocql", pages, nav_of(pages))
    assert text.startswith("# turbocql\n\n> A CQL driver for Python: Apache Cassandra and ScyllaDB")
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == ["Start", "More"]
    lines = re.findall(r"^- \[([^\]]+)\]\(([^)]+)\)(?:: (.+))?$", text, re.MULTILINE)
    assert [path for _, path, _ in lines] == LISTED
    assert lines[0][0] == "Home"
    for title, path, about in lines:
        assert title
        # The source of a page about a module has no first sentence, because the build of the site
        # inserts the docstring of the module.
        assert bool(about) != path.startswith("api/") or path == "api/turbocql.md", path
    assert (
        "- [Batches](batches.md): Use a batch to send several statements as one request.\n" in text
    )


def test_a_page_for_machines_has_the_files_that_it_includes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print(1)\n", encoding="utf-8")
    page = '# a\n\n```python title="a.py"\n--8<-- "a.py"\n```\n'
    text = machines.included(page, tmp_path)
    assert text == '# a\n\n```python title="a.py"\nprint(1)\n```\n'


def test_a_page_for_machines_has_the_docstrings_and_no_marks_of_the_site() -> None:
    page = "# a\n\n<!-- measured: b -->\n\nText.\n\n::: turbocql.a\n    options:\n      c: [d]\n\n"
    page += "End [`C`][turbocql.C].\n"
    assert machines.modules([page]) == {"turbocql.a"}
    text = machines.plain(page, {"turbocql.a": "Docstring, see [d][turbocql.d]."})
    assert text == "# a\n\nText.\n\nDocstring, see d.\n\nEnd `C`.\n"
    html = machines.alternate("<head></head><body></head>", "../a.md")
    link = '<link rel="alternate" type="text/markdown" href="../a.md">'
    assert html == f"<head>{link}</head><body></head>"
