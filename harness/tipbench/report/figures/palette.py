"""The colours of figures and pages, for light and for dark backgrounds; nothing else is imported for them."""

from __future__ import annotations

PALETTE: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#16181d"),
    "ink": ("#1b1b1b", "#e6e6e6"),
    "muted": ("#5c6068", "#9aa0a8"),
    "grid": ("#dcdee2", "#34383f"),
    "band": ("#eceef1", "#2a2e36"),
    "faster": ("#0072b2", "#56b4e9"),
    "slower": ("#b94e00", "#f08a3c"),
    "same": ("#007a59", "#2fc79a"),
    "unclear": ("#9c4a78", "#e09cc2"),
}
"""Name -> (light, dark). A page sets each as a CSS custom property of that name, `--ink`; figures use those of the
page that they stand in, and these values where they stand alone.

The hues of Okabe and Ito, "Color Universal Design" (2008), which the colour-blind tell apart, darkened on white and
lightened on black until text in them has a contrast of 4.5:1 to the paper. Grid and band are fainter: whatever they
say, a line or a word says too. Light values differ from each other: by them a drawn colour is known again."""
