"""What a wiki has to know of a figure's file."""

from __future__ import annotations

PIXELS_A_DOT = 2
"""Figures are drawn for dense screens: harness/report/figures has 192 pixels an inch, browsers have 96 dots."""


def shown_width(png: bytes) -> int:
    """How wide a figure is to be shown, in dots; 0 where the file does not tell. Its header comes first in a PNG."""
    is_png = png.startswith(b"\x89PNG\r\n\x1a\n") and png[12:16] == b"IHDR"
    return int.from_bytes(png[16:20]) // PIXELS_A_DOT if is_png else 0
