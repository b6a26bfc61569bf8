"""Each check of the finished site finds what it is there to find."""

import nbformat
import pytest
from nbformat.v4 import new_output

from helpers.book import check, private, staging
from helpers.book.page import outside, parse_page, read_page
from tests.book.conftest import chapter

GOOD = """<html><head><link rel="canonical" href="https://example.org/x">
<link rel="stylesheet" href="../_static/a.css"></head><body><h1>One<a href="#one">#</a></h1>
<a href="https://example.org">elsewhere</a><a href="../book/timings.html#top">times</a>
<img src="data:image/gif;base64,AAAA" alt="one dot"></body></html>"""


@pytest.fixture
def html(tiny, tmp_path):
    """A hand-made site of the tiny book, with nothing wrong, and its stage."""
    folder = tmp_path / "html"
    for name, title in (
        ("book/index", "A tiny book"),
        ("book/timings", "Execution times"),
        ("notebooks/01_one", "One"),
        ("notebooks/02_two", "Two"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = GOOD.replace(">One<", f">{title}<")
        (folder / f"{name}.html").write_text(text)
        staged = tiny.stage / name
        staged.parent.mkdir(parents=True, exist_ok=True)
        if name.startswith("notebooks"):
            download = folder / "_sources" / f"{name}.ipynb"
            download.parent.mkdir(parents=True, exist_ok=True)
            download.write_text("{}")
            notebook = chapter(title, "show()")
            data = {"text/html": ['<img alt="a" src="data:,">'], "image/png": "AAAA"}
            notebook.cells[-1].outputs = [new_output("display_data", data)]
            nbformat.write(notebook, staged.with_suffix(".ipynb"))
        else:
            staged.with_suffix(".md").write_text(f"# {title}\n")
    (folder / "_static").mkdir()
    (folder / "_static" / "a.css").write_text("p { background: url(a.png) }")
    return folder


def test_a_good_site_passes(tiny, html):
    assert check.site_problems(tiny, html) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<h1>One", "<h1>Other", "does not hold its title 'One'"),
        ("<h1>One", "<p>One", "does not hold its title 'One'"),
        ('<img src="data:image/gif;base64,AAAA" alt="one dot">', "", "shows 0 images"),
        (' alt="one dot"', "", "no alternative text"),
        ('alt="one dot"', 'alt=" "', "no alternative text"),
        ('alt="one dot"', 'alt="data:image/gif;base64,AAAA"', "no alternative text"),
        ('alt="one dot"', 'alt="../_images/a.PNG"', "no alternative text"),
        ("</body>", '<img src="data:x/a%20b" alt="a b"></body>', "no alternative text"),
        ("</body>", '<svg><image href="https://cdn.example/a.png"/></svg></body>', "third party"),
        ("</body>", '<svg><use xlink:href="//cdn.example/a#b"/></svg></body>', "third party"),
        ("</body>", "<script>a < b; fetch('https://cdn.example')</script></body>", "third party"),
        ("</body>", '<script>import x from "https://cdn.example/x"</script></body>', "third party"),
        ("</body>", "<script>x = import(`//cdn.example/x.js`)</script></body>", "third party"),
        ("</head>", "<style>a {b: URL(https://cdn.example/f)}</style></head>", "third party"),
        (
            "</head>",
            "<style>a {b: image-set('a.png' type('x/y') 1x, 'https://cdn.example' 2x)}</style>",
            "third party",
        ),
        ("</body>", '<div class="output traceback x">E</div></body>', "1 unexpected tracebacks"),
        ("</body>", '<script src="https://cdn.example/x.js"></script></body>', "third party"),
        ("</body>", '<script src="//cdn.example/x.js"></script></body>', "third party"),
        ("</body>", '<iframe src="https://cdn.example/"></iframe></body>', "third party"),
        ("</head>", "<style>@import 'https://cdn.example/x.css';</style></head>", "third party"),
        ("</head>", "<style>a {b: url(https://cdn.example/f)}</style></head>", "third party"),
        ("</head>", '<link rel="preconnect" href="https://cdn.example"></head>', "third party"),
        ("timings.html", "times.html", "refers to ../book/times.html"),
        ("_static/a.css", "_static/b.css", "refers to ../_static/b.css"),
        ("elsewhere", "elsewhere ROOT/x.py", "names a folder of this machine"),
    ],
)
def test_a_fault_of_a_page_is_noticed(tiny, html, old, new, said):
    page = html / "notebooks" / "01_one.html"
    text = page.read_text()
    assert old in text
    page.write_text(text.replace(old, new.replace("ROOT", str(tiny.root)), 1))
    found = check.site_problems(tiny, html)
    assert any(said in problem and "01_one" in problem for problem in found), found


def test_a_missing_page_is_noticed(tiny, html):
    (html / "book" / "timings.html").unlink()
    assert "the page book/timings.html is missing" in check.site_problems(tiny, html)


def test_a_missing_download_is_noticed(tiny, html):
    (html / "_sources" / "notebooks" / "02_two.ipynb").unlink()
    assert "the download of notebooks/02_two.ipynb is missing" in check.site_problems(tiny, html)


def test_a_style_sheet_that_loads_from_outside_is_noticed(tiny, html):
    (html / "_static" / "a.css").write_text("p { background: url('https://cdn.example/a.png') }")
    assert any("a.css loads" in problem for problem in check.site_problems(tiny, html))


def test_a_folder_name_in_a_download_is_noticed(tiny, html):
    (html / "_sources" / "notebooks" / "02_two.ipynb").write_text(f'"{tiny.root}/x"')
    assert any("02_two.ipynb names a folder" in p for p in check.site_problems(tiny, html))


def test_a_path_inside_an_address_is_no_folder_of_this_machine(tiny, html):
    page = html / "book" / "index.html"
    page.write_text(page.read_text().replace("example.org", f"example.org{tiny.root}/x"))
    assert check.site_problems(tiny, html) == []


def test_only_addresses_with_a_host_lead_outside():
    assert outside("https://a.b/c") and outside("//a.b/c") and outside("ftp://a")
    assert (
        not outside("data:image/png;base64,//8=") and not outside("../a//b") and not outside("#x")
    )


def test_a_script_that_only_mentions_or_links_to_an_address_loads_nothing():
    text = "<script>const home = 'https://a.example'; link.href = 'https://a.example'</script>"
    assert parse_page(text).loads == []
    assert parse_page("<script>fetch('data.json')</script>").loads == []


def test_hidden_cells_owe_the_page_no_figure():
    notebook = chapter("One", "show()", tags={0: ["remove-cell"]})
    notebook.cells[-1].outputs = [new_output("display_data", {"image/png": "AAAA"})]
    assert check.figures(notebook) == 0
    notebook.cells[-1].metadata["tags"] = []
    assert check.figures(notebook) == 1


def test_staging_strips_what_is_private_and_keeps_the_author_s_ids():
    notebook = chapter("One", "x")
    notebook.metadata["papermill"] = {"input_path": "/home/me/x.ipynb"}
    notebook.cells[1].metadata["tags"] = ["injected-parameters"]
    notebook.cells[2].metadata["papermill"] = {"start_time": "now"}
    notebook.cells[2].metadata["execution"] = {"iopub.status.busy": "now"}
    notebook.cells[2].outputs = [
        new_output("stream", text="/home/me/book/a.py"),
        new_output("error", ename="E", evalue="", traceback=["/home/me/book/b.py"]),
        new_output("display_data", {"text/html": "/home/me/book/c", "image/png": "/home/me/book/"}),
    ]
    clean = staging.cleaned(notebook, [("/home/me/book", "")])
    assert "papermill" not in clean.metadata and clean.cells[2].metadata == {}
    assert clean.cells[1].metadata["tags"] == ["injected-parameters", "remove-cell"]
    assert clean.cells[2].outputs[0]["text"] == "a.py"
    assert clean.cells[2].outputs[1]["traceback"] == ["b.py"]
    assert clean.cells[2].outputs[2]["data"] == {"text/html": "c", "image/png": "/home/me/book/"}
    assert [cell.id for cell in clean.cells] == ["title", "injected-parameters", "cell-0"]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/root", "~"),
        ("cd /root; ls /root/x '/root' PATH=/a:/root:/root", "cd ~; ls ~/x '~' PATH=/a:~:~"),
        ("In /root. Then", "In ~. Then"),
        ("\x1b[32m/root/a.py\x1b[0m", "\x1b[32m~/a.py\x1b[0m"),
        ("file:///root/a.py", "file://~/a.py"),
        (r"'a\n/root/b'", r"'a\n~/b'"),
        ("/root/book and /root/book/a.py", ". and a.py"),
        ("tree/root, /roots, /root-x, /root.txt, https://a.example/root, ../root", None),
    ],
)
def test_a_folder_is_scrubbed_where_it_stands_as_a_path(text, clean):
    places = (("/root/book", ""), ("/root", "~"))
    assert private.scrubbed(text, places) == (text if clean is None else clean)
    named = any(private.mentions(text, place) for place, _ in places)
    assert named == (clean is not None)


def test_the_cache_the_home_and_the_environment_are_private(tiny, monkeypatch):
    monkeypatch.setenv("HELPERS_CACHE", "/data/cache")
    monkeypatch.setenv("HOME", "/data")
    monkeypatch.setattr("sys.prefix", "/opt/env")
    places = dict(private.private_places(tiny))
    assert (places["/data/cache"], places["/data"]) == ("<cache>", "~")
    assert places["/opt/env"] == "<environment>" and places[str(tiny.root)] == ""
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setattr("sys.prefix", "/usr")
    assert {"/", "/usr"}.isdisjoint(dict(private.private_places(tiny)))


def test_a_cache_folder_that_a_page_names_is_noticed(tiny, html, monkeypatch):
    monkeypatch.setenv("HELPERS_CACHE", "/data/cache")
    page = html / "notebooks" / "01_one.html"
    page.write_text(page.read_text().replace("elsewhere", "in /data/cache"))
    assert any("of this machine: /data/cache" in p for p in check.site_problems(tiny, html))


def test_the_title_is_read_without_its_permalink(html):
    assert read_page(html / "notebooks" / "01_one.html").title == "One"
