"""The look of figures: readable in both themes, by everyone, and never without words."""

import io
import itertools
import re

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from PIL import Image

from helpers import plots
from helpers.plots import theme

ALT = "Eight points between 0.74 and 0.76, all above the band of the null model."
ROLES = [plots.TRAINED, plots.NULL, plots.THEORY, plots.PAPER, plots.CONTROL]

# Machado, Oliveira and Fernandes (2009): how a dichromat sees linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
) / np.array([[0.95047], [1.0], [1.08883]])


def lab(colour, vision):
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(VISION[vision] @ linear, 0, 1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def closest_pair(colours, vision):
    return min(
        np.linalg.norm(lab(a, vision) - lab(b, vision))
        for a, b in itertools.combinations(colours, 2)
    )


@pytest.fixture(autouse=True)
def style():
    with matplotlib.rc_context():
        plots.use_style()
        yield
    plt.close("all")


def simple_figure():
    fig, ax = plt.subplots(figsize=(4, 3))
    ax.plot([0, 1, 2], [0, 1, 0], label="trained")
    ax.set(xlabel="step", ylabel="loss", title="Falls")
    ax.legend()
    return fig


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA")).astype(float) / 255


def opaque_colours(png):
    image = pixels(png)
    return {to_hex(p[:3]) for p in image[image[..., 3] == 1]}


# --- colours -------------------------------------------------------------------------------------


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("night", [False, True])
def test_roles_stay_apart_for_every_vision(vision, night):
    colours = [theme.DARK[c] for c in ROLES] if night else ROLES
    assert closest_pair(colours, vision) > 11  # ten is clearly different side by side


def test_the_distance_test_notices_a_red_and_green_pair():
    pair = ["#a8650c", "#6b7d00"]
    assert closest_pair(pair, "normal") > 25 > 11 > closest_pair(pair, "protanopia")


@pytest.mark.parametrize(
    "colour", [*ROLES, plots.INK, plots.MUTED, *plots.VERDICT_COLOURS.values()]
)
def test_colours_that_may_carry_text_have_contrast_in_both_themes(colour):
    assert plots.contrast(colour, plots.BACKGROUND) >= 4.5
    for ground in (theme.DARK[plots.BACKGROUND], "#383838"):  # the site, Colab
        assert plots.contrast(theme.DARK[colour], ground) >= 4.5


def test_contrast_agrees_with_the_standard_at_its_ends():
    assert plots.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert plots.contrast("#777777", "#777777") == pytest.approx(1)
    assert plots.contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_the_cycle_changes_marker_and_line_with_colour():
    _, ax = plt.subplots()
    lines = [ax.plot([0, 1], [i, i])[0] for i in range(5)]
    assert len({line.get_marker() for line in lines}) == 5
    assert len({line.get_color() for line in lines}) == 5
    assert len({str(line._dash_pattern) for line in lines}) == 5


# --- the dark form -------------------------------------------------------------------------------


def test_dark_form_recolours_every_kind_of_artist():
    fig, ax = plt.subplots()
    line = ax.plot([0, 1], [0, 1], color=plots.TRAINED, mfc=plots.BACKGROUND, mec=plots.NULL)[0]
    bar = ax.bar([0], [1], color=plots.THEORY, edgecolor=plots.INK)[0]
    dots = ax.scatter([0, 1], [1, 0], color=[plots.PAPER, "#123456"])
    note = ax.annotate(
        "here",
        (0, 0),
        (1, 1),
        color=plots.INK,
        arrowprops={"arrowstyle": "->", "color": plots.MUTED},
        bbox={"fc": plots.BACKGROUND},
    )
    with theme.dark_figure(fig):
        assert to_hex(line.get_color()) == theme.DARK[plots.TRAINED]
        assert to_hex(line.get_markerfacecolor()) == theme.DARK[plots.BACKGROUND]
        assert to_hex(line.get_markeredgecolor()) == theme.DARK[plots.NULL]
        assert to_hex(bar.get_facecolor()) == theme.DARK[plots.THEORY]
        assert to_hex(bar.get_edgecolor()) == theme.DARK[plots.INK]
        assert [to_hex(c) for c in dots.get_facecolor()] == [theme.DARK[plots.PAPER], "#123456"]
        assert to_hex(note.get_color()) == theme.DARK[plots.INK]
        assert to_hex(note.arrow_patch.get_edgecolor()) == theme.DARK[plots.MUTED]
        assert to_hex(note.get_bbox_patch().get_facecolor()) == theme.DARK[plots.BACKGROUND]
        assert to_hex(ax.xaxis.label.get_color()) == theme.DARK[plots.INK]
        assert to_hex(ax.spines["left"].get_edgecolor()) == theme.DARK[plots.MUTED]
    assert to_hex(line.get_color()) == plots.TRAINED
    assert [to_hex(c) for c in dots.get_facecolor()] == [plots.PAPER, "#123456"]
    assert to_hex(note.arrow_patch.get_edgecolor()) == plots.MUTED


def test_dark_form_keeps_opacity_and_colour_maps():
    fig, ax = plt.subplots()
    band = ax.axvspan(0, 1, facecolor=plots.NULL, alpha=0.2)
    dots = ax.scatter([0, 1], [0, 1], c=[0.0, 1.0], cmap=plots.SEQUENTIAL)
    fig.canvas.draw()
    before = dots.get_facecolor().copy()
    with theme.dark_figure(fig):
        assert band.get_facecolor()[3] == pytest.approx(0.2)
        fig.canvas.draw()
        assert np.array_equal(dots.get_facecolor(), before)


def test_a_black_line_turns_white_once_with_its_marker():
    fig, ax = plt.subplots()
    line = ax.plot([0, 1], [0, 1], color="black")[0]
    with theme.dark_figure(fig):
        assert to_hex(line.get_color()) == to_hex(line.get_markerfacecolor()) == "#ffffff"


def test_artists_marked_fixed_keep_their_colour():
    fig, ax = plt.subplots()
    text = ax.text(0, 0, "7", color=plots.INK, gid=plots.FIXED)
    with theme.dark_figure(fig):
        assert text.get_color() == plots.INK


def test_the_figure_gets_its_colours_back_when_drawing_fails():
    fig, ax = plt.subplots()
    line = ax.plot([0, 1], color=plots.TRAINED)[0]
    with pytest.raises(RuntimeError), theme.dark_figure(fig):
        raise RuntimeError
    assert line.get_color() == plots.TRAINED


# --- show ----------------------------------------------------------------------------------------


def test_light_and_dark_forms_hold_their_own_ink_on_a_transparent_ground():
    shown = plots.show(simple_figure(), alt=ALT, caption="It falls.", name="falls")
    light, dark = opaque_colours(shown.light), opaque_colours(shown.dark)
    assert plots.INK in light and plots.TRAINED in light
    assert theme.DARK[plots.INK] in dark and theme.DARK[plots.TRAINED] in dark
    assert not light & {theme.DARK[plots.INK]} and not dark & {plots.INK, plots.TRAINED}
    assert pixels(shown.light)[0, 0, 3] == pixels(shown.dark)[0, 0, 3] == 0
    assert pixels(shown.plain).min(axis=(0, 1))[3] == 1


def test_html_holds_both_forms_with_the_alternative_text_and_one_caption():
    page = plots.show(
        simple_figure(),
        alt='A "rise" & a fall of the loss',
        caption="*Falls*: `x` < 2.",
        name="a-1",
    )._repr_html_()
    assert page.count('alt="A &quot;rise&quot; &amp; a fall of the loss"') == 2
    assert page.count("<img") == page.count("data:image/png;base64,") == 2
    assert "<figcaption><em>Falls</em>: <code>x</code> &lt; 2.</figcaption>" in page
    assert 'id="figure-a-1"' in page
    assert not re.search(r"https?://", page)


def test_every_place_gets_a_form_that_it_can_display():
    bundle = plots.show(simple_figure(), alt=ALT, caption="It falls.", name="x")._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    assert bundle["text/plain"] == "Figure x: It falls."


def test_wide_figures_scroll_instead_of_shrinking_below_readable_letters():
    fig, _ = plt.subplots(figsize=(12, 3))
    page = plots.show(fig, alt=ALT, caption="Wide.", name="wide")._repr_html_()
    least = int(re.search(r"min-width:(\d+)px", page)[1])
    assert least * theme.FONT_POINTS / (12 * 72) >= 8.9  # pixels a letter's size takes


def test_show_closes_the_figure():
    fig = simple_figure()
    plots.show(fig, alt=ALT, caption="It falls.", name="x")
    assert fig.number not in plt.get_fignums()


def test_the_same_figure_gives_the_same_bytes():
    first, second = (
        plots.show(simple_figure(), alt=ALT, caption="It falls.", name="x") for _ in range(2)
    )
    assert first.light == second.light and first.dark == second.dark


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alt": ""}, "at least 20"),
        ({"alt": "too short"}, "at least 20"),
        ({"alt": " " * 40}, "at least 20"),
        ({"caption": "  "}, "no caption"),
        ({"alt": f"The mean of eight seeds is {float('nan'):.2f}."}, "alternative text.*nan"),
        ({"caption": f"The rank is **{float('nan')}**."}, "caption.*nan"),
        ({"name": "Core Rank"}, "lower-case"),
        ({"name": 'x" onload="'}, "lower-case"),
    ],
)
def test_a_figure_without_proper_words_is_refused(change, message):
    words = {"alt": ALT, "caption": "It falls.", "name": "x"} | change
    with pytest.raises(ValueError, match=message):
        plots.show(simple_figure(), **words)


def test_words_that_only_contain_nan_are_kept():
    alt = "Two panels on finance, dominant in nanometres."
    assert plots.show(simple_figure(), alt=alt, caption="A finance dance.", name="x").alt == alt


@pytest.mark.parametrize(("colour", "where"), [("#cccccc", "light"), ("#222266", "dark")])
def test_text_that_vanishes_in_one_theme_is_refused(colour, where):
    fig = simple_figure()
    fig.axes[0].text(1, 0.5, "lost", color=colour)
    with pytest.raises(ValueError, match=f"'lost'.*{where} theme"):
        plots.show(fig, alt=ALT, caption="It falls.", name="x")


# --- shared pieces -------------------------------------------------------------------------------


def test_interval_strip_draws_every_seed_the_mean_and_the_interval():
    _, ax = plt.subplots()
    plots.interval_strip(ax, [0.1, 0.2, 0.6], 1.0, interval=(0.15, 0.5), label="cores")
    seeds, bar, mean = ax.lines
    assert list(seeds.get_xdata()) == [0.1, 0.2, 0.6]
    assert list(bar.get_xdata()) == [0.15, 0.5]
    assert mean.get_xdata()[0] == pytest.approx(0.3) and mean.get_label() == "cores"


def test_interval_strip_stands_upright_when_asked():
    _, ax = plt.subplots()
    plots.interval_strip(ax, [0.1, 0.2], 3.0, horizontal=False)
    assert list(ax.lines[0].get_ydata()) == [0.1, 0.2]


def test_belief_triangle_puts_certainty_at_the_corners_and_doubt_in_the_middle():
    _, ax = plt.subplots()
    beliefs = np.vstack([np.eye(3), np.full((1, 3), 1 / 3)])
    plots.belief_triangle(ax, beliefs, shades=beliefs)
    points = np.asarray(ax.collections[0].get_offsets())
    sides = [np.linalg.norm(points[i] - points[j]) for i, j in ((0, 1), (1, 2), (2, 0))]
    assert np.allclose(sides, 1)
    assert np.allclose(points[3], points[:3].mean(axis=0))


def test_complex_plane_is_not_squeezed():
    fig, ax = plt.subplots(figsize=(8, 3))
    plots.complex_plane(ax)
    plots.eigenvalues(ax, [0.75 + 0.25j, 0.75 - 0.25j, 0.5])
    fig.canvas.draw()
    origin, right, up = ax.transData.transform([(0, 0), (1, 0), (0, 1)])
    assert right[0] - origin[0] == pytest.approx(up[1] - origin[1])


def test_numbers_in_a_grid_read_on_their_cells():
    _, ax = plt.subplots()
    values = np.linspace(0, 1, 12).reshape(3, 4)
    plots.number_grid(ax, values, rows="abc", columns="abcd")
    image = ax.images[0]
    assert len(ax.texts) == 12
    for text in ax.texts:
        column, row = (int(v) for v in text.get_position())
        assert text.get_text() == f"{values[row, column]:.2f}"
        cell = image.cmap(image.norm(values[row, column]))
        assert plots.contrast(text.get_color(), cell) >= 4.0


def test_null_band_and_reference_line_run_along_the_axis_of_the_values():
    _, ax = plt.subplots()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    plots.null_band(ax, 0.2, 0.4, along="y")
    plots.reference_line(ax, 0.75, "Bayes", along="y")
    assert ax.patches[0].get_y() == pytest.approx(0.2)
    assert list(ax.lines[0].get_ydata()) == [0.75, 0.75]
    assert ax.texts[0].get_text() == "Bayes"


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda ax: plots.interval_strip(ax, [], 0), "nothing to draw"),
        (lambda ax: plots.interval_strip(ax, [1.0, np.nan], 0), "1 of 2 values are not finite"),
        (lambda ax: plots.interval_strip(ax, [1.0], 0, interval=(2.0, 1.0)), "swapped"),
        (lambda ax: plots.null_band(ax, 2.0, 1.0), "above high"),
        (lambda ax: plots.null_band(ax, 1.0, 2.0, along="z"), "'x' or 'y'"),
        (lambda ax: plots.reference_line(ax, np.inf, "theory"), "not finite"),
        (lambda ax: plots.reference_line(ax, 1.0, "theory", along="z"), "'x' or 'y'"),
        (lambda ax: plots.eigenvalues(ax, [complex(np.nan, 0)]), "not finite"),
        (lambda ax: plots.belief_triangle(ax, np.full((1, 3), np.nan)), "not finite"),
        (
            lambda ax: plots.belief_triangle(ax, np.eye(3), shades=np.eye(3) - 0.1),
            "one is negative",
        ),
        (
            lambda ax: plots.number_grid(ax, np.full((1, 1), np.nan), rows="a", columns="b"),
            "not finite",
        ),
    ],
)
def test_values_that_cannot_be_drawn_are_named(draw, message):
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match=message):
        draw(ax)
