"""The slider figure: every point where its eigenvalue is, every word safe, and never without words.

How it moves in a browser is tested with the site, in tests/site/test_sliders.py.
"""

import html
import json
import re

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import plots
from helpers.book.page import parse_page
from helpers.plots.slider_page import figure as page_figure
from helpers.plots.slider_scene import Scene
from helpers.plots.slider_svg import chart, frames, plane
from helpers.plots.theme import DARK

ALT = "Four eigenvalues start near zero and lie on the unit circle from step 200 on."
TURNS = np.exp(2j * np.pi * np.array([1, -1, 2, -2]) / 5)
STEPS = np.array([0, 100, 150, 200])
VALUES = np.array([0.1, 0.5, 0.96, 1.0])[:, None] * TURNS
CURVES = (
    plots.Curve("test accuracy", np.array([0.2, 0.25, 0.5, 1.0])),
    plots.Curve("R²", np.array([-0.3, 0.0, 0.9, 1.0])),
)


def shown(**changes):
    arguments = {"steps": STEPS, "values": VALUES, "curves": CURVES, "name": "film"}
    arguments |= {"alt": ALT, "caption": "They *arrive*."} | changes
    return plots.eigenvalue_slider(**arguments)


@pytest.fixture(scope="module")
def figure():
    return shown(band=0.05, roots=5)


def read(page):
    """The frames that a page carries, as its script reads them."""
    return json.loads(html.unescape(re.search(r'data-frames="([^"]*)"', page)[1]))


def decoded(scene):
    """Every frame's eigenvalues, read back from the drawing, whose circle is |λ| = 1."""
    x, y, r = map(float, re.search(r'cx="(\d+)" cy="(\d+)" r="([\d.]+)"', drawn(scene)).groups())
    flat = np.array([frame["dots"] for frame in frames(scene)])
    return (flat[:, ::2] - x - 1j * (flat[:, 1::2] - y)) / r


def drawn(scene, piece=plane):
    return "".join(piece(scene, frames(scene)[0]))


# --- where things stand --------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 8), st.floats(0.1, 3))
def test_points_read_back_as_their_eigenvalues(seed, n, r, size):
    rng = np.random.default_rng(seed)
    values = size * (rng.normal(size=(n, r)) + 1j * rng.normal(size=(n, r)))
    scene = Scene(np.arange(n), values, (plots.Curve("x", np.zeros(n)),))
    unit = 136 / scene.reach  # both the circle and the places are rounded to a tenth
    bound = (0.05 * np.abs(values).max() + 0.05 * np.sqrt(2)) / (unit - 0.05)
    assert np.abs(decoded(scene) - values).max() <= bound * (1 + 1e-9)


def test_a_mirrored_plane_would_be_noticed():
    scene = Scene(STEPS, VALUES[:, [0]], CURVES)
    assert np.abs(decoded(scene) - VALUES[:, [0]]).max() < 0.01
    assert np.abs(decoded(scene) - VALUES[:, [0]].conj()).max() > 0.5


def test_marks_stand_on_their_curves_and_on_the_axis():
    scene = Scene(STEPS, VALUES, CURVES)
    picture, every = drawn(scene, chart), frames(scene)
    for i, path in enumerate(re.findall(r'class="curve" d="M([^"]*)"', picture)):
        corners = [tuple(map(float, corner.split())) for corner in path.split("L")]
        assert corners == [(frame["x"], frame["y"][i]) for frame in every]
    ticks = {
        name: float(y) - 4
        for y, name in re.findall(r'y="([\d.]+)" text-anchor="end">([^<]*)<', picture)
    }
    assert ticks["0.5"] == pytest.approx(every[2]["y"][0], abs=0.1)  # accuracy is 0.5 there
    assert ticks["0"] == pytest.approx(every[1]["y"][1], abs=0.1)  # and R² is 0 here
    across = [frame["x"] for frame in every]
    assert np.allclose(np.diff(across) / (across[-1] - across[0]), [0.5, 0.25, 0.25], atol=0.01)


def test_values_beyond_0_and_1_stay_inside_the_axes():
    far = plots.Curve("R²", np.array([-3.0, -1.0, 0.5, 1.2]))
    scene = Scene(STEPS, VALUES, (far,))
    heights = [frame["y"][0] for frame in frames(scene)]
    assert scene.limits == (-3.0, 1.2)
    assert heights == sorted(heights, reverse=True) and min(heights) >= 30 and max(heights) <= 280


def test_eigenvalues_outside_the_circle_stay_inside_the_plane():
    values = np.array([[2.0 + 0j, -3j], [1.0 + 0j, 0.1j]])
    curve = plots.Curve("x", np.zeros(2))
    flat = np.array([f["dots"] for f in frames(Scene(np.array([0, 1]), values, (curve,)))])
    assert flat.min() >= 0 and flat.max() <= 320


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_shuffled_rows_come_back_as_smooth_tracks(seed):
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(7) / 7 + np.linspace(0, 1, 20)[:, None]  # a slow turn
    tracks = np.exp(1j * angles)
    mixed = np.array([rng.permutation(row) for row in tracks])
    scene = Scene(np.arange(20), mixed, (plots.Curve("x", np.zeros(20)),))
    smooth = np.abs(np.diff(scene.matched().eigenvalues, axis=0)).max()
    assert smooth == pytest.approx(2 * np.sin(1 / 19 / 2))  # each moves by the turn's chord
    assert np.abs(np.diff(mixed, axis=0)).max() > 0.5  # without matching they jump
    assert np.allclose(np.sort_complex(scene.matched().eigenvalues[5]), np.sort_complex(mixed[5]))


# --- what is said --------------------------------------------------------------------------------


def test_full_points_lie_in_the_band_and_are_counted():
    every = frames(Scene(STEPS, VALUES, CURVES, band=0.05))
    assert [frame["near"] for frame in every] == ["0000", "0000", "1111", "1111"]
    assert [frame["values"][1] for frame in every] == ["0 of 4", "0 of 4", "4 of 4", "4 of 4"]


def test_each_step_is_put_in_words():
    every = frames(Scene(STEPS, VALUES, CURVES, band=0.05))
    assert every[0]["says"] == (
        "step 0: test accuracy 0.20, R² −0.30, 0 of 4 eigenvalues near the circle"
    )
    assert (
        frames(Scene(STEPS, VALUES, CURVES))[3]["says"] == "step 200: test accuracy 1.00, R² 1.00"
    )


def test_no_number_is_minus_zero():
    tiny = plots.Curve("x", np.array([-0.0001, 0.0, 0.5, 1.0]))
    assert frames(Scene(STEPS, VALUES, (tiny,)))[0]["values"][2] == "0.00"


def test_it_starts_at_the_last_step_or_at_the_one_asked_for(figure):
    assert 'max="3" step="1" value="3"' in figure._repr_html_()
    assert read(figure._repr_html_()) == frames(Scene(STEPS, VALUES, CURVES, band=0.05))
    page = shown(start=100)._repr_html_()
    assert 'value="1"' in page and 'aria-valuetext="step 100: ' in page


def test_events_and_roots_are_marked():
    scene = Scene(STEPS, VALUES, CURVES, roots=5, events={"grokked": 175})
    assert drawn(scene).count(f"var(--c{plots.THEORY[1:]})") == 5
    assert ">grokked</text>" in drawn(scene, chart)


def test_words_of_the_author_cannot_become_markup():
    nasty = '</script><b onclick="x">&\'"</b>'
    curve = plots.Curve(nasty, np.zeros(4))
    page = shown(curves=[curve], events={nasty: 100}, alt=ALT + nasty, caption=nasty)._repr_html_()
    assert "<b " not in page and page.count("</script>") == 1
    assert read(page)[0]["says"].startswith(f"step 0: {nasty}")
    assert page.count("&lt;/script&gt;") >= 6  # alt (3 times), caption, key, event


# --- the page ------------------------------------------------------------------------------------


def test_the_page_loads_nothing_and_stays_small(figure):
    page = figure._repr_html_()
    assert all(address.startswith("data:image/png") for address in parse_page(page).loads)
    assert not re.search(r"https?:|\bimport\b|fetch\(|url\(", page)
    n = 60
    many = np.tile(TURNS, (n, 5)) * np.linspace(0.1, 1, n)[:, None]
    curves = [plots.Curve(name, np.linspace(0, 1, n)) for name in "abc"]
    scene = Scene(np.arange(n) * 25, many, curves, band=0.1, roots=53)
    assert len(page_figure(scene, 0, "film", ALT, "")) < 60_000


def test_every_colour_has_a_form_for_both_themes(figure):
    page = figure._repr_html_()
    light, dark = re.findall(r"\.book-slider\{((?:--c\w{6}:#\w{6};)+)", page)
    used = set(re.findall(r"var\(--c(\w{6})\)", page))
    assert {plots.TRAINED[1:], plots.THEORY[1:], plots.INK[1:]} <= used
    for colour in used:
        assert f"--c{colour}:#{colour};" in light
        assert f"--c{colour}:{DARK[f'#{colour}']};" in dark


def test_curves_differ_in_more_than_colour():
    curves = [plots.Curve(name, np.zeros(4), plots.TRAINED) for name in "abcde"]
    picture = drawn(Scene(STEPS, VALUES, curves), chart)
    lines = re.findall(r'class="curve" d="[^"]*" (.*?)/>', picture)
    marks = re.findall(r'class="mark" d="([^"]*)"', picture)
    assert len(set(lines)) == len(set(marks)) == 5


def test_curves_take_the_cycle_unless_they_name_a_colour():
    curves = (CURVES[0], plots.Curve("null", np.zeros(4), plots.NULL))
    assert Scene(STEPS, VALUES, curves).colours == [plots.TRAINED, plots.NULL]
    assert Scene(STEPS, VALUES, CURVES).colours == plots.CYCLE[:2]


def test_the_same_data_give_the_same_page(figure):
    assert shown(band=0.05, roots=5)._repr_html_() == figure._repr_html_()


# --- without a script ----------------------------------------------------------------------------


def test_the_still_form_stands_in_the_page_and_beside_it(figure):
    page, bundle = figure._repr_html_(), figure._repr_mimebundle_()
    assert page.count('class="book-light') == page.count('class="book-dark') == 1
    assert page.count(f'alt="{ALT}"') == 2 and f'aria-label="{ALT}"' in page
    assert "<figcaption>They <em>arrive</em>.</figcaption>" in page
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    assert bundle["text/html"] == page and bundle["text/plain"] == "Figure film: They *arrive*."


def test_the_still_form_is_a_row_of_snapshots_over_the_curves(monkeypatch):
    seen = []
    monkeypatch.setattr(plt, "close", seen.append)
    n = 9
    many = np.linspace(0.1, 1, n)[:, None] * TURNS
    shown(
        steps=np.arange(n) * 1000,
        values=many,
        curves=[plots.Curve("x", np.linspace(0, 1, n))],
        band=0.2,
        snapshots=[0, 3000, 6000, 8000],
    )
    monkeypatch.undo()
    [figure] = seen
    *shots, curves = figure.axes
    assert [ax.get_title(loc="left") or ax.get_title() for ax in shots] == [
        "step 0",
        "step 3,000",
        "step 6,000",
        "step 8,000",
    ]
    for ax, index in zip(shots, (0, 3, 6, 8), strict=True):
        points = np.concatenate(
            [a.get_xdata() + 1j * a.get_ydata() for a in ax.lines if len(a.get_xdata()) == 4]
        )
        assert np.allclose(np.sort_complex(points), np.sort_complex(many[index]))
    assert curves.get_xlabel() == "training step"
    assert list(curves.lines[-1].get_markevery()) == [0, 3, 6, 8]
    plt.close(figure)


# --- refusals ------------------------------------------------------------------------------------

NAN = np.array([0.1, np.nan, 0.2, 0.3])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": np.array([0, 100, 100, 200])}, "each above the last"),
        ({"steps": np.array([0]), "values": VALUES[:1]}, "two or more"),
        ({"values": VALUES[:3]}, "one row of eigenvalues each"),
        ({"values": VALUES * NAN[:, None]}, "not finite"),
        ({"values": np.ones((4, 6000), dtype=complex)}, "make the page heavy"),
        ({"curves": []}, "1 to 5 curves; got 0"),
        ({"curves": [plots.Curve(c, np.zeros(4)) for c in "abcdef"]}, "got 6"),
        ({"curves": [plots.Curve("short", np.zeros(3))]}, "'short' needs a value for each"),
        ({"curves": [plots.Curve("hole", NAN)]}, "curve 'hole': 1 of 4 values are not finite"),
        ({"curves": [plots.Curve("x", np.zeros(4), "#123456")]}, "no form for dark pages"),
        ({"curves": [plots.Curve("x", np.zeros(4))] * 2}, "a name of its own"),
        ({"curves": [plots.Curve(" ", np.zeros(4))]}, "a name of its own"),
        ({"band": -0.1}, "band is a distance"),
        ({"roots": -1}, "roots a count"),
        ({"events": {"late": 500}}, "'late' at step 500 lies outside"),
        ({"now": "turned"}, "one {}"),
        ({"axis": " "}, "axis names what the slider moves along"),
        ({"start": 140}, "no step 140; the nearest one is 150"),
        ({"snapshots": [0, 100, 199, 200]}, "no step 199"),
        ({"snapshots": [0, 100]}, "four to six snapshots; got 2"),
        ({"alt": "short"}, "at least 20"),
        ({"caption": " "}, "no caption"),
        ({"name": "Film Two"}, "lower-case"),
    ],
)
def test_what_cannot_be_shown_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        shown(**changes)


def test_no_class_is_one_that_the_theme_s_icon_font_takes_for_its_own():
    """It replaces such elements by icons: a point of class "far" would vanish from the page."""
    page = shown(band=0.05)._repr_html_()
    written = {name for value in re.findall(r'class="([^"]*)"', page) for name in value.split()}
    toggled = set(re.findall(r'classList\.\w+\("([^"]*)"', page))
    assert "dot" in written and toggled
    for name in written | toggled:
        assert not re.fullmatch(r"fa|fa[bdlrst]|fa-.*", name), name


def test_the_slider_can_move_along_something_else_than_training():
    page = shown(axis="share of the <turn>", now="{} % of the turn")._repr_html_()
    first, last = read(page)[0], read(page)[-1]
    assert first["values"][0] == "0 % of the turn" and last["values"][0] == "200 % of the turn"
    assert last["says"].startswith("200 % of the turn: ")
    assert "training step" not in page.lower() and "<turn>" not in page
    assert 'aria-label="Share of the &lt;turn&gt;"' in page
