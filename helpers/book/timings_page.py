"""The page of execution times."""

from typing import Any

HEAD = """# Execution times

How long each chapter took when this site was made, how much processor time all its processes used
together, and the most memory they held at once. Shared pages count once. A chapter keeps trained
models in a cache: where an earlier run had filled it, the times are shorter than a first run's.
"""


def render(rows: list[dict[str, Any]]) -> str:
    """The page as Markdown: one line a chapter, and a sum.

    Args:
        rows: dicts with ``chapter, profile, seconds, cpu_seconds, peak_mb, cores, memory_gb``.
    """
    lines = [
        "| chapter | profile | elapsed | processor | peak memory | machine |",
        "|---|---|--:|--:|--:|---|",
    ]
    for row in rows:
        machine = f"{row['cores']} cores used, {row['memory_gb']:.0f} GB"
        lines.append(
            f"| [{row['chapter']}](../notebooks/{row['chapter']}) | {row['profile']} "
            f"| {clock(row['seconds'])} | {clock(row['cpu_seconds'])} "
            f"| {row['peak_mb']:.0f} MB | {machine} |"
        )
    lines.append(
        f"| all | | {clock(sum(r['seconds'] for r in rows))} "
        f"| {clock(sum(r['cpu_seconds'] for r in rows))} "
        f"| {max((r['peak_mb'] for r in rows), default=0):.0f} MB | |"
    )
    return HEAD + "\n" + "\n".join(lines) + "\n"


def clock(seconds: float) -> str:
    """``seconds`` as minutes and seconds, for example ``2:05``."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
