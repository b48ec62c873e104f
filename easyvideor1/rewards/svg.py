"""SVG text -> a safe drawing of moderate size, in one spelling that a renderer can be given.

Entities, scripts, event handlers and references to anything outside the text make a drawing unsafe, and so unreadable.
Expat parses, with limits on depth and count while it goes; what `<use>`, filters, masks and patterns multiply counts.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from PIL import Image

MAX_DEPTH = 100
MAX_NODES = 5000
"""Most nodes in the text, and again after references are multiplied."""
FILTER_COST, LAYER_COST, DASH_COST = 250, 20, 100
"""Nodes that a step of a filter, a layer (a mask, a clip, a pattern, a group's opacity) and a dashed line count as."""
CHARS_PER_NODE = 8
"""Characters of visible text that count as one node."""
MAX_FILTER_REGION = 5.0
"""Side of the region of a filter, in sides of the drawing."""
MAX_FILTER_NUMBERS = {"numOctaves": 8.0, "order": 9.0}
MAX_RADIUS_FRAC = 0.05
"""Largest radius of a filter that thickens or thins, in sides of the drawing."""
MIN_DASH_FRAC = 0.001
"""Shortest dash with its gap, in sides of the drawing."""
MAX_EMBEDDED_PIXELS = 4_000_000
MAX_SIZE = 1e12
DEFAULT_SIZE = (300.0, 150.0)

_UNSAFE_TAGS = {"script", "foreignobject", "iframe", "object", "embed", "handler", "audio", "video", "canvas"}
_TEXT_TAGS = {"text", "tspan", "textpath"}
_REFERRING = ("filter", "mask", "clip-path", "fill", "stroke", "marker", "marker-start", "marker-mid", "marker-end")
_OUTSIDE_URL = re.compile(r"url\(\s*['\"]?\s*(?!#|data:)", re.IGNORECASE)
_REFERENCE = re.compile(r"url\(\s*['\"]?\s*#([^'\")\s]+)")
_PICTURE_DATA = re.compile(r"data:image/(?:png|jpe?g|gif|webp)[;,]", re.IGNORECASE)
_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(%|[a-z]*)\s*\Z")
_UNIT_PX = {
    "": 1.0,
    "px": 1.0,
    "pt": 4 / 3,
    "pc": 16.0,
    "mm": 96 / 25.4,
    "cm": 96 / 2.54,
    "in": 96.0,
    "em": 16.0,
    "ex": 8.0,
}


class UnreadableSvgError(ValueError):
    """The text is no well-formed, safe drawing of moderate size."""


@dataclass(slots=True)
class Node:
    """An element: local tag name, attributes by local name, and its texts and children in order."""

    tag: str
    attributes: dict[str, str]
    content: list[Node | str] = field(default_factory=list)

    @property
    def children(self) -> Iterator[Node]:
        return (part for part in self.content if isinstance(part, Node))

    @property
    def text(self) -> str:
        return "".join(part for part in self.content if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Drawing:
    """A safe drawing."""

    width: float
    height: float
    """Width and height of the viewport, in the drawing's pixels."""
    source: str
    """The drawing as text, without what is not drawn and with names as a renderer wants them."""
    texts: str
    """All its visible text."""


def read_svg(text: str) -> Drawing:
    """The drawing in a text; raises UnreadableSvgError."""
    if re.search(r"<!ENTITY|<!DOCTYPE[^>]*\[", text, re.IGNORECASE):
        raise UnreadableSvgError("a document type with declarations of its own")
    start, end = text.find("<svg"), text.rfind("</svg>")
    if start < 0:
        raise UnreadableSvgError("no <svg> element")
    root = _parse(text[start : end + len("</svg>")] if end >= 0 else text[start:])
    _check_cost(root)
    width, height = _viewport(root)
    _check_details(root, width, height)
    _check_embedded(root)
    root.attributes |= {"width": f"{width:g}", "height": f"{height:g}"}
    for name in ("x", "y"):
        root.attributes.pop(name, None)
    return Drawing(width, height, "".join(_written(root)), " ".join(" ".join(_texts(root)).split()))


def _parse(text: str) -> Node:
    """The tree of a text that is well-formed, safe and within the limits."""
    parser = expat.ParserCreate()
    stack = [Node("", {})]
    count = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        tag = name.rpartition(":")[2]
        if len(stack) > MAX_DEPTH or count > MAX_NODES:
            raise UnreadableSvgError("nested too deep or too many elements")
        if tag.lower() in _UNSAFE_TAGS or any(map(_is_unsafe, attributes.items())):
            raise UnreadableSvgError(f"<{tag}> with active content or a reference to the outside")
        node = Node(tag, {_local(key): value for key, value in attributes.items() if not key.startswith("xmlns")})
        stack[-1].content.append(node)
        stack.append(node)

    def end(_name: str) -> None:
        node = stack.pop()
        if node.tag.lower() == "style" and ("@import" in node.text or _OUTSIDE_URL.search(node.text)):
            raise UnreadableSvgError("a style sheet that refers to the outside")

    def characters(data: str) -> None:
        stack[-1].content.append(data)

    def refuse(*_: object) -> int:
        raise UnreadableSvgError("a document type or an entity")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, characters
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = parser.ExternalEntityRefHandler = refuse
    parser.buffer_text = True
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise UnreadableSvgError(f"not well-formed: {error}") from None
    root = next(stack[0].children)
    if root.tag != "svg":
        raise UnreadableSvgError(f"the outermost element is <{root.tag}>")
    return root


def _local(name: str) -> str:
    return name if name.startswith("xml:") else name.rpartition(":")[2]


def _is_unsafe(attribute: tuple[str, str]) -> bool:
    name, value = attribute[0].rpartition(":")[2].lower(), attribute[1].strip()
    if name.startswith("on") or "javascript:" in value.lower() or _OUTSIDE_URL.search(value):
        return True
    return name in ("href", "src") and not (value.startswith("#") or _PICTURE_DATA.match(value))


def _check_cost(root: Node) -> None:
    """Refuse drawings whose references multiply what is drawn, or lead in a circle."""
    by_id: dict[str, Node] = {}
    for node in _walk(root):
        if "id" in node.attributes:
            by_id.setdefault(node.attributes["id"], node)
    costs: dict[int, int] = {}
    if _cost(root, by_id, costs, depth=0) > MAX_NODES:
        raise UnreadableSvgError("references multiply the elements")


def _cost(node: Node, by_id: Mapping[str, Node], costs: dict[int, int], *, depth: int) -> int:
    """Nodes that are drawn for one; each element is worked out once, and twice on the way is a circle."""
    if id(node) in costs:
        if costs[id(node)] < 0:
            raise UnreadableSvgError("references in a circle")
        return costs[id(node)]
    if depth > 2 * MAX_DEPTH:
        raise UnreadableSvgError("references nested too deep")
    costs[id(node)] = -1
    cost = 1 + sum(_cost(child, by_id, costs, depth=depth + 1) for child in node.children)
    cost += _own_cost(node)
    for name, target in _references(node, by_id):
        times = 1 + len(node.attributes.get("d", node.attributes.get("points", ""))) // 4 if "marker" in name else 1
        cost += LAYER_COST * (name != "use") + times * _cost(target, by_id, costs, depth=depth + 1)
    costs[id(node)] = cost
    return cost


_LAYER = re.compile(r"(?<![\w-])(?:opacity|mix-blend-mode|isolation)(?![\w-])")
_DASHED = re.compile(r"(?<![\w-])stroke-dasharray(?![\w-])")


def _own_cost(node: Node) -> int:
    """The cost of an element beyond its children and references, in nodes."""
    said = " ".join([*node.attributes, node.attributes.get("style", ""), node.text if node.tag == "style" else ""])
    cost = FILTER_COST if node.tag.startswith("fe") and node.tag != "feMergeNode" else 0
    cost += LAYER_COST * len(_LAYER.findall(said)) + DASH_COST * len(_DASHED.findall(said))
    return cost + (len(node.text.strip()) // CHARS_PER_NODE if node.tag in _TEXT_TAGS else 0)


def _check_details(root: Node, width: float, height: float) -> None:
    """Refuse dashes and filters whose work is out of all proportion to the drawing."""
    for node in _walk(root):
        for dashes in _DASHES.findall(f"{node.attributes.get('style', '')};{node.text if node.tag == 'style' else ''}"):
            _check_dashes(dashes, max(width, height))
        _check_dashes(node.attributes.get("stroke-dasharray", ""), max(width, height))
        if node.tag == "filter":
            sides = [_number(node.attributes.get(name, "0")) for name in ("x", "y", "width", "height")]
            scale = max(width, height) if node.attributes.get("filterUnits") == "userSpaceOnUse" else 1.0
            if max(map(abs, sides)) > MAX_FILTER_REGION * scale:
                raise UnreadableSvgError("a filter far larger than the drawing")
        elif node.tag.startswith("fe"):
            limits = MAX_FILTER_NUMBERS | {"radius": MAX_RADIUS_FRAC * max(width, height)}
            for name, most in limits.items():
                if any(
                    abs(_number(word)) > most for word in re.split(r"[\s,]+", node.attributes.get(name, "0").strip())
                ):
                    raise UnreadableSvgError(f"a filter with {name} above {most:g}")


_DASHES = re.compile(r"stroke-dasharray\s*:\s*([^;}]*)")


def _check_dashes(text: str, side: float) -> None:
    lengths = [_number(word) for word in re.split(r"[\s,]+", text.strip())]
    if any(lengths) and sum(map(abs, lengths)) < MIN_DASH_FRAC * side:
        raise UnreadableSvgError("dashes too small to be seen")


def _number(text: str) -> float:
    match = _NUMBER.match(text)
    return float(match[1]) / (100 if match[2] == "%" else 1) if match else 0.0


def _check_embedded(root: Node) -> None:
    """Refuse pictures inside a drawing that are too large, or none."""
    for node in _walk(root):
        href = node.attributes.get("href", "")
        if not href.startswith("data:"):
            continue
        head, _, data = href.partition(",")
        try:
            content = base64.b64decode(data) if head.endswith(";base64") else data.encode()
            with Image.open(io.BytesIO(content)) as picture:  # reads the header alone
                width, height = picture.size
        except (ValueError, OSError, Image.DecompressionBombError):
            raise UnreadableSvgError("an embedded picture that is none") from None
        if width * height > MAX_EMBEDDED_PIXELS:
            raise UnreadableSvgError(f"an embedded picture of {width} x {height}")


def _references(node: Node, by_id: Mapping[str, Node]) -> Iterator[tuple[str, Node]]:
    """(what for, target) of each reference of an element to another one."""
    href = node.attributes.get("href", "")
    if href.startswith("#") and href[1:] in by_id:
        yield ("use" if node.tag == "use" else "href"), by_id[href[1:]]
    values = [(name, node.attributes[name]) for name in _REFERRING if name in node.attributes]
    values += [("style", node.attributes.get("style", ""))]
    for name, value in values:
        for match in _REFERENCE.finditer(value):
            if match[1] in by_id:
                yield name, by_id[match[1]]


def _walk(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(current.children)


def _viewport(root: Node) -> tuple[float, float]:
    """Width and height of a drawing in pixels: as it says, or else those of its view box."""
    box = [_length(word) for word in re.split(r"[\s,]+", root.attributes.get("viewBox", "").strip()) if word]
    has_box = len(box) == 4 and None not in box
    if "viewBox" in root.attributes and not has_box:
        raise UnreadableSvgError("a view box that is no four numbers")
    sizes = []
    for place, name in enumerate(("width", "height")):
        size = _length(root.attributes.get(name, ""))
        default = box[2 + place] if has_box else DEFAULT_SIZE[place]
        sizes.append(default if size is None else size)
    width, height = sizes
    if has_box and min(box[2] or 0, box[3] or 0) <= 0:
        raise UnreadableSvgError("an empty view box")
    if width is None or height is None or not (0 < width < MAX_SIZE and 0 < height < MAX_SIZE):
        raise UnreadableSvgError(f"a viewport of {width} x {height}")
    if any(abs(number or 0) >= MAX_SIZE for number in box):
        raise UnreadableSvgError("a view box far away")
    return width, height


def _length(text: str) -> float | None:
    """A length in pixels; None for a percent and for what is no number."""
    match = _NUMBER.match(text)
    if match is None or match[2] not in _UNIT_PX:
        return None
    return float(match[1]) * _UNIT_PX[match[2]]


def _written(node: Node) -> Iterator[str]:
    """The text of a tree again; a recursion as deep as the tree, which is limited."""
    attributes = "".join(f" {name}={quoteattr(value)}" for name, value in node.attributes.items() if _is_name(name))
    yield f"<{node.tag}{attributes}>"
    for part in node.content:
        if isinstance(part, str):
            yield escape(part)
        elif _is_name(part.tag):
            yield from _written(part)
    yield f"</{node.tag}>"


def _is_name(name: str) -> bool:
    return re.fullmatch(r"(?:xml:)?[A-Za-z_][\w.-]*", name) is not None


def _texts(node: Node, *, is_text: bool = False) -> Iterator[str]:
    if node.attributes.get("display") == "none" or node.tag.lower() in ("defs", "symbol", "title", "desc", "metadata"):
        return
    is_text = is_text or node.tag.lower() in _TEXT_TAGS
    for part in node.content:
        if isinstance(part, Node):
            yield from _texts(part, is_text=is_text)
        elif is_text:
            yield part
