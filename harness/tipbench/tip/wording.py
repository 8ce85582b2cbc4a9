"""Numbers and foreign text as a reader should see them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_TEXT = 600
"""Characters of one foreign text that are shown: a traceback belongs in the results file."""


def plain(text: str) -> str:
    """One line without control, direction-changing or surrogate characters: safe in a terminal."""
    line = re.sub(r"\s+", " ", _visible(text)).strip()
    return line if len(line) <= LONGEST_TEXT else f"{line[: LONGEST_TEXT - 3]}..."


def lines_of(text: str) -> str:
    """The same with its lines, tabs as blanks, no blank ends: for code, and for whatever is shown in a terminal."""
    lines = re.split(r"\r\n|\r|\n", text.expandtabs(4))
    return "\n".join(_visible(line).rstrip() for line in lines).strip("\n")


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text  # nearly all text: the rest takes ten times as long
    return "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)


def ratio(value: float, low: float | None, high: float | None) -> str:
    """`1.35x [1.33, 1.38]`, with the digits that the interval's width supports; `about 1.35x` where there is none."""
    if low is None or high is None:
        return f"about {_three(value)}x"
    half = (high - low) / 2
    finest = 3 if value >= 0.1 else 5
    digits = finest if half <= 0 else min(max(-math.floor(math.log10(half)), 0 if value >= 10 else 2), finest)
    return f"{value:.{digits}f}x [{low:.{digits}f}, {high:.{digits}f}]"


def seconds(value: float) -> str:
    """Three digits in a unit that suits: `12.3 ms`, `-1.2 s`, `4.5 min`."""
    size = abs(value)
    if size >= 120:
        return f"{_three(value / 60)} min"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if size >= 0.9995 * scale:
            return f"{_three(value / scale)} {unit}"
    return "0 s" if value == 0 else f"{_three(value / 1e-9)} ns"


def size(count: float) -> str:
    """Bytes in binary units: `1.25 GiB`."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    if abs(count) > 1e300:  # no memory, but a file may say so, and it would not divide
        return f"{value(count)} B"
    power = min(max(int(math.log2(abs(count)) // 10), 0), len(units) - 1) if count else 0
    return f"{_three(count / 1024**power)} {units[power]}"


def change(before: float, after: float) -> str:
    """`-67 %`, `same`, or `from nothing` where there was none before."""
    if before <= 0:
        return "same" if before == after else "from nothing"
    percent = 100 * (after / before - 1)
    if abs(percent) < 0.05:
        return "same"
    return f"{percent:+.1f} %" if abs(percent) < 10 else f"{percent:+,.0f} %"


def value(content: Any) -> str:
    """Whatever a mechanism counted, in few characters."""
    if isinstance(content, bool):
        return "yes" if content else "no"
    if content is None:
        return "none"
    if isinstance(content, int):
        return f"{content:,}"
    if isinstance(content, float):
        return f"{content:,.0f}" if content.is_integer() and abs(content) < 1e15 else f"{content:.3g}"
    if isinstance(content, Mapping):
        return ", ".join(f"{key} {value(item)}" for key, item in content.items()) or "none"
    if isinstance(content, Sequence) and not isinstance(content, str):
        return ", ".join(map(value, content)) or "none"
    return str(content)


def equal_work(equal: Mapping[str, Any]) -> str:
    """`VariantRecord.equal` as a sentence without its full stop; empty where nothing was compared."""
    if not equal:
        return ""
    if equal.get("method") in ("same target", "target reached"):  # the second in older runs
        return "the sides differ on purpose and train to the same target; their results have the same shapes"
    on = f"on {plural(equal['seeds'], 'fresh input')}" if isinstance(equal.get("seeds"), int) else "on fresh inputs"
    tolerance = value(equal.get("tolerance"))
    if "error" in equal:
        errors = f"error against fp64 {value(equal['error'])}, the baseline's {value(equal.get('baseline_error'))}"
        return f"compared in fp64, as rounding differs: {errors} ({tolerance} allowed; relative, {on})"
    if equal.get("worst") == 0:
        return f"the same bits {on}"
    return f"results differ by at most {value(equal.get('worst'))} of the largest value ({tolerance} allowed, {on})"


def percent(share: float) -> str:
    """`0.42 %`, `4.2 %`, `42 %`: two digits."""
    size = 100 * abs(share)
    return f"{100 * share:.{0 if size >= 10 else 1 if size >= 1 else 2}f} %"


def plural(count: int, noun: str) -> str:
    """`1 pair`, `2 pairs`."""
    return f"{count:,} {noun}{('es' if noun.endswith('ch') else 's') * (count != 1)}"


def _three(value: float) -> str:
    """Three significant digits without an exponent."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.3g}")))))
    return f"{value:,.{digits}f}"


JOB_NAMES = {
    "HighRate": "Text by an LSTM at a high rate",
    "LSTMEpoch": "Lines of text by an LSTM",
    "NextByte": "Text by a small GPT",
    "NextByteByLSTM": "Text by an LSTM",
    "OnEight": "GPT training on eight GPUs",
    "OnFour": "GPT training on four GPUs",
    "TransformerEpoch": "Lines of text by a Transformer",
    "TwiceTheBatch": "GPT training with twice the batch",
    "TwoEncoders": "Encoder inference in two processes",
    "TwoInstances": "ResNet inference in two processes",
}
"""Of pairs whose names say too little where they stand alone."""


def job_words(pair: str) -> str:
    """`GPTTraining` as "GPT training"."""
    if pair in JOB_NAMES:
        return JOB_NAMES[pair]
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", pair).replace("Res Net", "ResNet").split()
    return " ".join([*words[:1], *(word if word.isupper() or "ResNet" in word else word.lower() for word in words[1:])])


def way_words(variant: str) -> str:
    """`max_autotune` as "max-autotune"."""
    words = {"jemalloc_bare": "jemalloc with nothing set", "nothing_set": "processes with nothing set"}
    return words.get(variant, variant if "=" in variant else variant.replace("_", "-"))
