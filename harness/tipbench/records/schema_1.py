"""Records as they were stored first: by other names, with sentences for reasons, without a number of rounds."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from tipbench.records.record import Record
from tipbench.tip.reason import NEEDS, NEEDS_SENTENCES, Reason

LONGEST = 1000
"""Characters of a reason that is compared with the sentences."""


def record(data: Mapping[str, Any]) -> Record:
    """A record whose launches hold no number of rounds, whose reasons are sentences, and that calls settings
    `surroundings` and `flush_l2` `cold`.

    Unless a later tipbench added it on resuming.
    """
    data = _with_reason(data)
    if isinstance(info := data.get("info"), dict):
        data = {**data, "info": _renamed(_with_reason(info))}
    if isinstance(variants := data.get("variants"), dict):
        data = {**data, "variants": {name: _with_reason(found) for name, found in variants.items()}}
    launches = data.get("launches")
    if isinstance(launches, list):
        data = {**data, "launches": [_with_rounds(launch) for launch in launches]}
    return Record.from_json(data)


def _renamed(info: dict[str, Any]) -> dict[str, Any]:
    """What is no list of variants stays as it is, and is named later."""
    listed = info.get("variants")
    if isinstance(listed, list):
        listed = [
            _with_key(_with_reason(one), "surroundings", "settings") if isinstance(one, dict) else one for one in listed
        ]
        info = {**info, "variants": listed}
    return _with_key(info, "cold", "flush_l2")


def _with_key(data: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: found for name, found in data.items()}


def _with_reason(data: Any) -> Any:
    """What is nothing of the kind, or holds no sentence where one was, stays as it is, and is named later."""
    if not isinstance(data, dict):
        return data
    kept = dict(data)
    words = [kept.pop(name, "") for name in ("kind", "reason", "remedy")]
    if not all(isinstance(word, str) for word in words):
        return data
    kind, reason, remedy = words
    return {"why": asdict(_reason(kind, reason, remedy)) if any(words) else None, **kept}


def _reason(kind: str, reason: str, remedy: str) -> Reason:
    """With its code, where it says what a sentence on needs says; else one that is worded by its detail alone."""
    if not kind and len(reason) < LONGEST:
        for code in NEEDS_SENTENCES:
            if code != "own" and (found := _form(code).fullmatch(reason)):
                fields = {name: _field(text) for name, text in found.groupdict().items() if name != "detail"}
                why = Reason(f"{NEEDS}.{code}", fields, found.groupdict().get("detail", ""))
                if why.text == reason:
                    return why if why.remedy == remedy else replace(why, fix=remedy)
    return Reason(f"{kind.replace(' ', '-') or NEEDS}.stored", detail=reason, fix=remedy)


@cache
def _form(code: str) -> re.Pattern[str]:
    """What a sentence looks like with its fields filled in."""
    form = ""
    for literal, name, noun, _ in string.Formatter().parse(NEEDS_SENTENCES[code].text):
        form += re.escape(literal) + (f"(?P<{name}>.*?)" if name else "")
        form += f" {noun}s?" if noun and noun[0].isupper() else ""
    return re.compile(form, re.DOTALL)


def _field(text: str) -> int | str:
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else text


def _with_rounds(launch: Any) -> Any:
    """What is no launch stays as it is, and is named later."""
    order = launch.get("variant") if isinstance(launch, dict) else None
    if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
        return launch
    return {"rounds": max(1, len(order) // (2 * len(set(order)) or 1)), **launch}
