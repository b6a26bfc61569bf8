"""Checks of one page in the browser. Each returns what is wrong, in words, or an empty list.

They say what a reader would notice: a request to somebody else, an error, raw TeX, a picture that
is missing or has no words, a figure of the wrong theme, a page that scrolls sideways, faint text,
a slider that moves nothing.
"""

from helpers.plots.theme import DARK, INK, contrast
from tests.site.browser import NARROW, WIDE, Look
from tests.site.sliders import sliders

MIN_INK_PIXELS = 30


def third_parties(look: Look) -> list[str]:
    """Requests to any host but the site's own."""
    return [f"asked another host: {url[:120]}" for url in look.foreign]


def errors(look: Look) -> list[str]:
    """Console errors, script errors, files that the server does not have."""
    return list(look.errors)


def maths(look: Look) -> list[str]:
    """Formulas that MathJax did not set, or set as an error, and TeX in the running text."""
    return look.page.evaluate(
        r"""() => {
          const bad = [];
          for (const node of document.querySelectorAll('span.math, div.math')) {
            const set = node.querySelector('mjx-container');
            const box = set?.getBoundingClientRect();
            // a formula inside closed details has no box; being set is enough there
            if (!set) bad.push(`formula not set: ${node.textContent.trim().slice(0, 60)}`);
            else if (!box.width && node.checkVisibility()) bad.push('formula set without a size');
          }
          for (const node of document.querySelectorAll('mjx-merror, [data-mjx-error]'))
            bad.push(`formula with an error: ${(node.getAttribute('data-mjx-error') ||
              node.textContent).slice(0, 60)}`);
          const raw = /\\\(|\\\[|\$\$|\$[^$\n]*\\[A-Za-z]+[^$\n]*\$|\\(frac|mathbf|begin)\b/;
          const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          while (walk.nextNode()) {
            const within = walk.currentNode.parentElement;
            if (within.closest('script,style,pre,code,textarea,mjx-container,.math')) continue;
            const hit = raw.exec(walk.currentNode.data);
            if (hit) bad.push(`TeX in the text: ${walk.currentNode.data.trim().slice(0, 60)}`);
          }
          return bad;
        }"""
    )


def pictures(look: Look) -> list[str]:
    """Pictures without alternative text, and visible ones that did not load."""
    return look.page.evaluate(
        """async () => {
          const bad = [];
          for (const img of document.images) {
            const name = (img.getAttribute('src') || '').slice(0, 60);
            const alt = (img.getAttribute('alt') || '').trim();
            const src = img.getAttribute('src') || '';
            // without a text of the author's, Sphinx writes the file's path
            if (!alt || alt === src || alt === src.split('/').pop() ||
                /\\.(png|svg|jpe?g|gif|webp)$/i.test(alt)) bad.push(`no alternative text: ${name}`);
            if (!img.checkVisibility()) continue;
            try { await img.decode() } catch (e) { /* naturalWidth says it */ }
            if (!img.naturalWidth) bad.push(`does not load: ${name}`);
          }
          return bad;
        }"""
    )


def figure_themes(look: Look) -> list[str]:
    """Figures that show both of their forms, none, or the one for the other theme. A figure with a
    slider shows its moving form and no picture."""
    return look.page.evaluate(
        """(theme) => {
          const bad = [];
          for (const figure of document.querySelectorAll('figure.book-figure')) {
            if (!figure.checkVisibility()) continue;
            const shown = [...figure.querySelectorAll('img')].filter(i => i.checkVisibility());
            const forms = shown.map(i => i.classList.contains('book-dark') ? 'dark' : 'light');
            const moving = figure.querySelector('.live');
            if (forms.join() !== (moving?.checkVisibility() ? '' : theme))
              bad.push(`${figure.id} shows [${forms}] on a ${theme} page`);
          }
          return bad;
        }""",
        look.theme,
    )


def sideways(look: Look) -> list[str]:
    """What makes a page of 400 pixels scroll sideways."""
    look.resize(NARROW)
    try:
        return look.page.evaluate(
            """(width) => {
              const root = document.documentElement;
              if (Math.max(root.scrollWidth, document.body.scrollWidth) <= width + 1) return [];
              const bad = [`the page is ${root.scrollWidth} pixels wide on a screen of ${width}`];
              const scrolls = (node) => {
                for (let up = node.parentElement; up && up !== document.body; up = up.parentElement)
                  if (getComputedStyle(up).overflowX !== 'visible') return true;
                return false;
              };
              for (const node of document.querySelectorAll('body *')) {
                const box = node.getBoundingClientRect();
                if (box.width && box.right > width + 1 && !scrolls(node))
                  bad.push(`reaches ${Math.round(box.right)}: <${node.tagName.toLowerCase()} ` +
                    `class="${node.className}"> ${node.textContent.trim().slice(0, 40)}`);
              }
              return bad.slice(0, 6);
            }""",
            NARROW[0],
        )
    finally:
        look.resize(WIDE)


def faint_text(look: Look) -> list[str]:
    """Text of the article with a contrast under 4.5 (3 where it is large), opacity counted in."""
    return look.page.evaluate(
        """() => {
          const dot = Object.assign(document.createElement('canvas'), {width: 1, height: 1})
            .getContext('2d', {willReadFrequently: true});
          const known = {};
          const parse = (text) => {  // any CSS colour as [r, g, b, alpha]
            if (known[text]) return known[text];
            dot.clearRect(0, 0, 1, 1); dot.fillStyle = text; dot.fillRect(0, 0, 1, 1);
            const d = dot.getImageData(0, 0, 1, 1).data;
            return known[text] = [d[0], d[1], d[2], d[3] / 255];
          };
          const over = (top, under, alpha) => top.slice(0, 3).map(
            (v, i) => v * alpha + under[i] * (1 - alpha));
          const light = (c) => { const l = c.map(v => { v /= 255;
            return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });
            return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2] };
          const ground = (node) => {
            const layers = [];
            for (let up = node; up; up = up.parentElement)
              layers.push(parse(getComputedStyle(up).backgroundColor));
            let c = [255, 255, 255];
            for (const layer of layers.reverse()) c = over(layer, c, layer[3]);
            return c;
          };
          const bad = {};
          const unseen = 'script,style,mjx-assistive-mml,.headerlink,.visually-hidden';
          const walk = document.createTreeWalker(
            document.querySelector('article') || document.body, NodeFilter.SHOW_TEXT);
          while (walk.nextNode()) {
            const node = walk.currentNode.parentElement;
            if (!walk.currentNode.data.trim() || !node.checkVisibility()) continue;
            if (node.closest(unseen)) continue;
            const style = getComputedStyle(node);
            if (style.visibility === 'hidden' || !node.getBoundingClientRect().width) continue;
            const under = ground(node), ink = parse(style.color);
            let alpha = ink[3];
            for (let up = node; up; up = up.parentElement) alpha *= getComputedStyle(up).opacity;
            if (alpha < 0.02) continue;  // shown on hover only, such as a copy button
            const a = light(over(ink, under, alpha)), b = light(under);
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            const size = parseFloat(style.fontSize);
            const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
            if (ratio < (large ? 3 : 4.5) - 0.01) {
              const key = `${node.tagName.toLowerCase()}.${node.className}`;
              bad[key] ??= `contrast ${ratio.toFixed(1)}: <${key}> ` +
                walk.currentNode.data.trim().slice(0, 40);
            }
          }
          return Object.values(bad);
        }"""
    )


def faint_figures(look: Look) -> list[str]:
    """Figures whose axes and letters are not drawn in an ink that shows on this page."""
    ink = INK if look.theme == "light" else DARK[INK]
    seen = look.page.evaluate(
        """async (ink) => {
          const want = [1, 3, 5].map(i => parseInt(ink.slice(i, i + 2), 16));
          const probe = document.createElement('canvas').getContext('2d');
          const found = [];
          for (const img of document.querySelectorAll('figure.book-figure img')) {
            if (!img.checkVisibility()) continue;
            await img.decode();
            const canvas = Object.assign(document.createElement('canvas'),
              {width: img.naturalWidth, height: img.naturalHeight});
            const context = canvas.getContext('2d');
            context.drawImage(img, 0, 0);
            const d = context.getImageData(0, 0, canvas.width, canvas.height).data;
            let count = 0;
            for (let i = 0; i < d.length; i += 4)
              if (d[i] === want[0] && d[i+1] === want[1] && d[i+2] === want[2] && d[i+3] === 255)
                count++;
            const colours = [];
            for (let up = img; up; up = up.parentElement) {
              probe.fillStyle = getComputedStyle(up).backgroundColor;
              if (/^#/.test(probe.fillStyle)) { colours.push(probe.fillStyle); break }
            }
            found.push([img.closest('figure').id, count, colours[0] || '#ffffff']);
          }
          return found;
        }""",
        ink,
    )
    bad = []
    for name, count, ground in seen:
        if count < MIN_INK_PIXELS:
            bad.append(f"{name}: {count} pixels of the {look.theme} theme's ink {ink}")
        elif contrast(ink, ground) < 7:
            bad.append(
                f"{name}: ink {ink} on {ground} has a contrast of {contrast(ink, ground):.1f}"
            )
    return bad


ALL = [
    third_parties,
    errors,
    maths,
    pictures,
    figure_themes,
    sideways,
    faint_text,
    faint_figures,
    sliders,
]
