"""Matplotlib's SVG made small, and fit to stand alone as well as within a page, beside others of its kind."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tipbench.report.figures.palette import PALETTE

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
REFERENCE = re.compile(r"url\(#([^)]+)\)")
NUMBER = re.compile(r"-?\d+\.\d+")
DOTS, DOT = "launches", 1.7
"""What the groups of dots are called while a figure is drawn, and how wide a dot is, in points."""

FONT = "8px sans-serif"
DEFAULTS = {"font-size: 8px", "font-family: 'DejaVu Sans', sans-serif", "text-anchor: start", "stroke-linejoin: miter"}
"""What the figure as a whole says, or SVG by itself, no element need say."""

GEOMETRY = ("d", "x", "y", "width", "height", "transform")


def compact(content: bytes, name: str, alt: str) -> bytes:
    """The same picture: ids and classes that no other figure of a page has, every colour of the palette a CSS
    custom property, coordinates in tenths of a point, and nothing that is not seen.

    name: of the figure, in letters, digits and dashes. alt: what it shows, for who cannot see it.
    """
    root = ElementTree.fromstring(content)
    for element in root.findall(f"{SVG}metadata") + root.findall(f"{SVG}defs[{SVG}style]"):
        root.remove(element)
    ids = _referred(root, name)
    classes: dict[str, str] = {}
    for element in root.iter():
        given = dict(element.attrib)
        element.attrib.clear()
        for key, value in given.items():
            if key == "id":  # matplotlib names everything, and the names of two figures would meet on a page
                if value in ids or value == DOTS:
                    element.set("id", ids.get(value, DOTS))
            elif key == HREF:
                element.set("href", f"#{ids[value[1:]]}")
            elif key == "style":
                declared = [found for found in re.split(r";\s*", value) if found and found not in DEFAULTS]
                element.set("class", " ".join(classes.setdefault(found, f"s{len(classes)}") for found in declared))
            elif key in GEOMETRY and element is not root:
                value = re.sub(r"\s+", " ", NUMBER.sub(_round, value)).strip()
                value = re.sub(" ?([MLCz]) ?", r"\1", value) if key == "d" else value
                if not value.startswith(("rotate(-0 ", "rotate(0 ")):
                    element.set(key, value)
            else:
                element.set(key, REFERENCE.sub(lambda found: f"url(#{ids[found[1]]})", value))
        if element.tag != f"{SVG}text":
            element.text = None
        element.tail = None
    for group in list(root.iter(f"{SVG}g")):
        if group.get("id") == DOTS:
            _dots(group, classes)
    _unwrap(root, classes.get("fill: none", ""))
    root.set("class", f"figure-{name}")
    root.set("role", "img")
    root.set("aria-label", alt)
    style = ElementTree.Element(f"{SVG}style")
    style.text = _rules(name, classes)
    root.insert(0, style)
    ElementTree.register_namespace("", SVG[1:-1])
    return ElementTree.tostring(root).replace(b" />", b"/>")


def _referred(root: ElementTree.Element, name: str) -> dict[str, str]:
    """New ids of the elements that others refer to."""
    found: dict[str, str] = {}
    for element in root.iter():
        for key, value in element.attrib.items():
            named = [value[1:]] if key == HREF else [] if key == "style" else REFERENCE.findall(value)
            for old in named:
                found.setdefault(old, f"{name}-{len(found)}")
    return found


def _dots(group: ElementTree.Element, classes: dict[str, str]) -> None:
    """Many round dots as one path of points with round ends, a fifth of the size."""
    del group.attrib["id"]
    marks = list(group.iter(f"{SVG}use"))
    style = [f"stroke: {PALETTE['muted'][0]}", f"stroke-width: {DOT}", "stroke-linecap: round"]
    names = " ".join(classes.setdefault(found, f"s{len(classes)}") for found in style)
    # Of no length at all some renderers draw nothing.
    places = "".join(f"M{mark.get('x')} {mark.get('y')}h.01" for mark in marks)
    group[:] = [ElementTree.Element(f"{SVG}path", {"d": places, "class": names})] if marks else []


def _unwrap(element: ElementTree.Element, unseen: str) -> None:
    """Groups that say nothing go, what is not seen goes, and what all of a group's marks share is said once."""
    children: list[ElementTree.Element] = []
    for child in element:
        _unwrap(child, unseen)
        if child.tag == f"{SVG}g" and not child.attrib:
            children += child
        elif child.get("class") != unseen:
            children.append(child)
    element[:] = children
    if element.tag == f"{SVG}g" and len(children) > 1:
        for key in [name for name in ("class", "clip-path") if name not in element.attrib]:
            shared = {child.get(key, "") for child in children}
            if len(shared) == 1 and all(shared):
                element.set(key, shared.pop())
                for child in children:
                    del child.attrib[key]


def _rules(name: str, classes: dict[str, str]) -> str:
    """A figure that is a document of its own brings its paper along, dark where the reader's screen is; within
    a page `svg:root` is no element, so these rules do nothing there, and the page's own properties hold."""
    dark = "".join(f"--{name}:{dark};" for name, (_, dark) in PALETTE.items())
    rules = [
        f"svg:root{{background:var(--paper,{PALETTE['paper'][0]})}}",
        f"@media screen and (prefers-color-scheme:dark){{svg:root{{{dark}}}}}",
        f".figure-{name}{{font:{FONT}}}",
    ]
    return "".join([*rules, *(f".figure-{name} .{short}{{{_rule(found)}}}" for found, short in classes.items())])


def _rule(declared: str) -> str:
    """Colours twice: who does not know custom properties, as some renderers beside browsers, skips the second."""
    key, value = re.split(r":\s*", declared, maxsplit=1)
    names = [name for name, (light, _) in PALETTE.items() if light == value]
    return ";".join([f"{key}:{value}", *(f"{key}:var(--{name},{value})" for name in names)])


def _round(found: re.Match[str]) -> str:
    return f"{float(found[0]):.1f}".removesuffix(".0")
