"""Save a picture of every page, in both themes, wide and at 400 pixels, for people to look at.

python -m tests.site.shots FOLDER [SITE]
"""

import sys
from pathlib import Path

from tests.site.browser import NARROW, WIDE, chromium, look_at, serve
from tests.site.links import pages


def shoot(site: Path, folder: Path) -> list[Path]:
    """Write `<page>-<theme>-<width>.png` for every page of a site; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with chromium() as browser, serve(site) as address:
        for name in pages(site):
            for theme in ("light", "dark"):
                with look_at(browser, f"{address}/{name}", theme) as look:
                    for size in (WIDE, NARROW):
                        look.resize(size)
                        stem = name.removesuffix(".html").replace("/", "_")
                        target = folder / f"{stem}-{theme}-{size[0]}.png"
                        look.page.screenshot(path=str(target), full_page=True)
                        written.append(target)
    return written


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    built = Path(sys.argv[2]) if len(sys.argv) == 3 else Path("_build/html")
    if not built.is_dir():
        sys.exit(f"There is no site in {built}. Build it first: make book")
    print(f"{len(shoot(built, Path(sys.argv[1])))} pictures in {sys.argv[1]}")
