"""SVG text -> shapes in a square of SIZE pixels, by a parser that reads nothing but the text.

Entities, scripts, event handlers and references to anything outside the text make a drawing unsafe, and so unreadable;
filters, clips and masks are left out. Expat parses, with limits on depth and count while it goes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from easyvideor1.rewards.svg_geometry import (
    FLOAT,
    Matrix,
    Subpath,
    flatten,
    multiply,
    parse_transform,
    to_float,
    transformed,
)

SIZE = 256
"""Side of the square canvas in pixels, whatever size a drawing claims."""
MAX_DEPTH = 100
MAX_NODES = 5000
"""Of the text, and again of the picture: `<use>` can multiply nodes."""

_UNSAFE_TAGS = {"script", "foreignobject", "iframe", "object", "embed", "handler", "audio", "video"}
_HIDDEN_TAGS = {
    "defs", "clippath", "mask", "pattern", "symbol", "marker", "lineargradient", "radialgradient", "filter", "style",
    "title", "desc", "metadata",
}  # fmt: skip
_INHERITED = (
    "fill", "stroke", "stroke-width", "fill-opacity", "stroke-opacity", "font-size", "text-anchor", "color",
    "visibility",
)  # fmt: skip
_OUTSIDE_URL = re.compile(r"url\(\s*['\"]?\s*(?!#|data:)", re.IGNORECASE)


class UnreadableSvgError(ValueError):
    """The text is no well-formed, safe drawing of moderate size."""


@dataclass(slots=True)
class Node:
    """An element: local tag name in lower case, attributes, children, and its own text."""

    tag: str
    attributes: dict[str, str]
    children: list[Node] = field(default_factory=list)
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Something to paint, in pixels of the canvas; colours are names or codes, None where not painted."""

    paths: tuple[Subpath, ...] = ()
    text: str = ""
    at: tuple[float, float] = (0.0, 0.0)
    text_px: float = 0.0
    anchor: str = "start"
    fill: str | None = None
    fill_opacity: float = 1.0
    stroke: str | None = None
    stroke_px: float = 0.0
    stroke_opacity: float = 1.0


def read_svg(text: str) -> list[Shape]:
    """The shapes of a drawing in painting order; raises UnreadableSvgError."""
    if re.search(r"<!ENTITY|<!DOCTYPE[^>]*\[", text, re.IGNORECASE):
        raise UnreadableSvgError("a document type with declarations of its own")
    start, end = text.find("<svg"), text.rfind("</svg>")
    if start < 0:
        raise UnreadableSvgError("no <svg> element")
    root = _parse(text[start : end + len("</svg>")] if end >= 0 else text[start:])
    return list(_Picture(root).shapes())


def _parse(text: str) -> Node:
    """The tree of a text that is well-formed, safe and within the limits."""
    parser = expat.ParserCreate()
    stack = [Node("", {})]
    count = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        tag = name.rpartition(":")[2].lower()
        if len(stack) > MAX_DEPTH or count > MAX_NODES:
            raise UnreadableSvgError("nested too deep or too many elements")
        if tag in _UNSAFE_TAGS or any(map(_is_unsafe, attributes.items())):
            raise UnreadableSvgError(f"<{tag}> with active content or a reference to the outside")
        node = Node(tag, {key.rpartition(":")[2]: value for key, value in attributes.items()})
        stack[-1].children.append(node)
        stack.append(node)

    def end(_name: str) -> None:
        node = stack.pop()
        if node.tag == "style" and ("@import" in node.text or _OUTSIDE_URL.search(node.text)):
            raise UnreadableSvgError("a style sheet that refers to the outside")

    def characters(data: str) -> None:
        stack[-1].text += data

    def refuse(*_: object) -> int:
        raise UnreadableSvgError("a document type or an entity")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, characters
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = parser.ExternalEntityRefHandler = refuse
    parser.buffer_text = True
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise UnreadableSvgError(f"not well-formed: {error}") from None
    root = stack[0].children[0]
    if root.tag != "svg":
        raise UnreadableSvgError(f"the outermost element is <{root.tag}>")
    return root


def _is_unsafe(attribute: tuple[str, str]) -> bool:
    name, value = attribute[0].rpartition(":")[2].lower(), attribute[1].strip()
    if name.startswith("on") or "javascript:" in value.lower() or _OUTSIDE_URL.search(value):
        return True
    return name in ("href", "src") and not value.startswith(("#", "data:image/"))


class _Picture:
    """A drawing while it is turned into shapes."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._by_id: dict[str, Node] = {}
        self._styles: list[tuple[str, dict[str, str]]] = []
        self._num_drawn = 0
        for node in _walk(root):
            if "id" in node.attributes:
                self._by_id.setdefault(node.attributes["id"], node)
            if node.tag == "style":
                self._styles += _style_rules(node.text)
        self._width, self._height, self._matrix = _viewport(root)

    def shapes(self) -> Iterator[Shape]:
        properties = {"fill": "black", "stroke": "none", "stroke-width": "1", "font-size": "16", "color": "black"}
        yield from self._draw(self._root, self._matrix, properties, 1.0, depth=0)

    def _draw(
        self, node: Node, matrix: Matrix, inherited: Mapping[str, str], opacity: float, *, depth: int
    ) -> Iterator[Shape]:
        self._num_drawn += 1
        if self._num_drawn > MAX_NODES or depth > MAX_DEPTH:
            raise UnreadableSvgError("references multiply the elements")
        own = self._own_properties(node)
        if own.get("display") == "none":
            return
        properties = dict(inherited) | {key: own[key] for key in _INHERITED if own.get(key, "inherit") != "inherit"}
        opacity *= _fraction(own.get("opacity", "1"))
        matrix = multiply(matrix, parse_transform(node.attributes.get("transform", "")))
        if node.tag == "use":
            target = self._by_id.get(node.attributes.get("href", "")[1:])
            if target is not None:
                shift = (1.0, 0.0, 0.0, 1.0, self._length(node, "x"), self._length(node, "y", is_vertical=True))
                yield from self._draw_inside(target, multiply(matrix, shift), properties, opacity, depth=depth)
            return
        if node.tag == "text":
            yield from self._texts(node, matrix, properties, opacity)
        elif properties.get("visibility") != "hidden":
            paths = flatten(node.tag, node.attributes, self._length_of)
            if paths:
                yield self._shape(tuple(transformed(paths, matrix)), matrix, properties, opacity)
        for child in node.children:
            if child.tag not in _HIDDEN_TAGS and node.tag != "text":
                yield from self._draw(child, matrix, properties, opacity, depth=depth + 1)

    def _draw_inside(
        self, target: Node, matrix: Matrix, properties: Mapping[str, str], opacity: float, *, depth: int
    ) -> Iterator[Shape]:
        nodes = target.children if target.tag == "symbol" else [target]
        for node in nodes:
            yield from self._draw(node, matrix, properties, opacity, depth=depth + 1)

    def _own_properties(self, node: Node) -> dict[str, str]:
        own = dict(node.attributes)
        names = {node.tag, "*", f"#{node.attributes.get('id', '')}"}
        names |= {f".{name}" for name in node.attributes.get("class", "").split()}
        for selector, declarations in self._styles:
            if selector in names:
                own |= declarations
        return own | _declarations(node.attributes.get("style", ""))

    def _shape(
        self, paths: tuple[Subpath, ...], matrix: Matrix, properties: Mapping[str, str], opacity: float
    ) -> Shape:
        scale = math.sqrt(abs(matrix[0] * matrix[3] - matrix[1] * matrix[2]))
        return Shape(
            paths=paths,
            fill=self._paint(properties, "fill"),
            fill_opacity=opacity * _fraction(properties.get("fill-opacity", "1")),
            stroke=self._paint(properties, "stroke"),
            stroke_px=self._length_of(properties["stroke-width"], False) * scale,
            stroke_opacity=opacity * _fraction(properties.get("stroke-opacity", "1")),
        )

    def _texts(self, node: Node, matrix: Matrix, properties: Mapping[str, str], opacity: float) -> Iterator[Shape]:
        x, y = self._length(node, "x"), self._length(node, "y", is_vertical=True)
        scale = math.sqrt(abs(matrix[0] * matrix[3] - matrix[1] * matrix[2]))
        for piece in [node, *(child for child in node.children if child.tag == "tspan")]:
            own = dict(properties) | {
                key: value for key, value in self._own_properties(piece).items() if key in _INHERITED
            }
            if "x" in piece.attributes:
                x = self._length(piece, "x")
            if "y" in piece.attributes:
                y = self._length(piece, "y", is_vertical=True)
            y += self._length(piece, "dy", is_vertical=True)
            text = " ".join(piece.text.split())
            size = self._length_of(own["font-size"], True)
            if text:
                yield Shape(
                    text=text[:200],
                    at=(matrix[0] * x + matrix[2] * y + matrix[4], matrix[1] * x + matrix[3] * y + matrix[5]),
                    text_px=size * scale,
                    anchor=own.get("text-anchor", "start"),
                    fill=self._paint(own, "fill"),
                    fill_opacity=opacity * _fraction(own.get("fill-opacity", "1")),
                )
                x += 0.55 * size * len(text)

    def _paint(self, properties: Mapping[str, str], name: str) -> str | None:
        """The colour of a fill or stroke; a gradient counts as its middle stop."""
        value = properties[name].strip()
        if value.startswith("url("):
            target = self._by_id.get(value[4:].split(")")[0].strip("'\" #"))
            stops: list[Node] = []
            for _ in range(4):  # a gradient may take its stops from another one
                stops = [child for child in target.children if child.tag == "stop"] if target else []
                if target is None or stops or "href" not in target.attributes:
                    break
                target = self._by_id.get(target.attributes["href"][1:])
            value = self._own_properties(stops[len(stops) // 2]).get("stop-color", "black") if stops else "gray"
        if value == "currentColor":
            value = properties.get("color", "black")
        return None if value in ("none", "transparent") else value

    def _length(self, node: Node, name: str, *, is_vertical: bool = False) -> float:
        return self._length_of(node.attributes.get(name, "0"), is_vertical)

    def _length_of(self, value: str, is_vertical: bool) -> float:
        number, is_percent = _number(value)
        return number / 100 * (self._height if is_vertical else self._width) if is_percent else number


def _walk(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def _viewport(root: Node) -> tuple[float, float, Matrix]:
    """Width and height of the user space, and the matrix that centres it on the canvas."""
    box = [_number(word)[0] for word in re.split(r"[\s,]+", root.attributes.get("viewBox", "").strip()) if word]
    if len(box) != 4:
        sizes = [_number(root.attributes.get(name, "")) for name in ("width", "height")]
        width, height = (
            default if is_percent or not size else size
            for (size, is_percent), default in zip(sizes, (300.0, 150.0), strict=True)
        )
        box = [0.0, 0.0, width, height]
    x, y, width, height = box
    if not (0 < width < 1e12 and 0 < height < 1e12 and abs(x) < 1e12 and abs(y) < 1e12):
        raise UnreadableSvgError(f"a viewport of {width:g} x {height:g}")
    scale = SIZE / max(width, height)
    left, top = (SIZE - scale * width) / 2, (SIZE - scale * height) / 2
    return width, height, (scale, 0.0, 0.0, scale, left - scale * x, top - scale * y)


_NUMBER = re.compile(rf"\s*+({FLOAT})\s*+(%|[a-z]*+)")


def _number(text: str) -> tuple[float, bool]:
    """A length as number and whether it is a percent; 0 for what is no number."""
    match = _NUMBER.match(text)
    if match is None:
        return 0.0, False
    return to_float(match[1]), match[2] == "%"


def _fraction(text: str) -> float:
    number, is_percent = _number(text)
    return min(1.0, max(0.0, number / 100 if is_percent else number))


def _style_rules(text: str) -> list[tuple[str, dict[str, str]]]:
    """(selector, declarations) of a style sheet, for single class, id and tag selectors."""
    rules = []
    for match in re.finditer(r"([^{}]{1,500})\{([^{}]{0,5000})\}", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)):
        rules += [(selector.strip(), _declarations(match[2])) for selector in match[1].split(",")]
    return rules


def _declarations(text: str) -> dict[str, str]:
    pairs = (part.partition(":") for part in text.split(";"))
    return {name.strip(): value.replace("!important", "").strip() for name, colon, value in pairs if colon}
