"""The colours of figures and pages."""

from __future__ import annotations

PALETTE: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#16181d"),
    "ink": ("#1b1b1b", "#e6e6e6"),
    "muted": ("#5c6068", "#9aa0a8"),
    "grid": ("#dcdee2", "#34383f"),
    "band": ("#eceef1", "#2a2e36"),
    "good": ("#0072b2", "#56b4e9"),
    "bad": ("#b94e00", "#f08a3c"),
    "same": ("#007a59", "#2fc79a"),
    "open": ("#9c4a78", "#e09cc2"),
}
"""Name -> (on light backgrounds, on dark ones). A page sets each as a CSS custom property, `--ink`.

The hues of Okabe and Ito, "Color Universal Design" (2008), which the colour-blind tell apart, darkened on white and
lightened on black until text in them has a contrast of 4.5:1 to the paper. Grid and band are fainter: what they say, a
line or a word says too. Light values differ from each other: a page replaces them in figures by its own.
"""
