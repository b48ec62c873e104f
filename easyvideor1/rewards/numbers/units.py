"""Units and nouns behind numbers: their dimension and size, so that 5 m is 500 cm and 3 cats are not 3 dogs."""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    """The thing that a number counts."""

    dimension: frozenset[tuple[str, int]]
    """(base unit or noun, power), such as metres and seconds; empty for a bare number."""
    size: Fraction
    """How many of the base units one of it is."""


BARE = Unit(frozenset(), Fraction(1))

_TABLE = {
    "m": ("m 1", "meter metre meters metres \u7c73"),
    "mm": ("m 1/1000", "millimeter millimetre millimeters millimetres \u6beb\u7c73"),
    "cm": ("m 1/100", "centimeter centimetre centimeters centimetres \u5398\u7c73 \u516c\u5206"),
    "dm": ("m 1/10", "decimeter decimetre decimeters decimetres \u5206\u7c73"),
    "km": ("m 1000", "kilometer kilometre kilometers kilometres \u5343\u7c73 \u516c\u91cc"),
    "in": ("m 127/5000", "inch inches \u82f1\u5bf8"),
    "ft": ("m 381/1250", "foot feet \u82f1\u5c3a"),
    "yd": ("m 1143/1250", "yard yards"),
    "mi": ("m 1609344/1000", "mile miles \u82f1\u91cc"),
    "g": ("g 1", "gram grams gramme grammes \u514b"),
    "mg": ("g 1/1000", "milligram milligrams \u6beb\u514b"),
    "kg": ("g 1000", "kilogram kilograms kilo kilos kgs \u5343\u514b \u516c\u65a4"),
    "t": ("g 1000000", "tonne tonnes \u5428"),
    "lb": ("g 45359237/100000", "lbs pound pounds"),
    "oz": ("g 45359237/1600000", "ounce ounces"),
    "s": ("s 1", "sec secs second seconds \u79d2 \u79d2\u949f"),
    "ms": ("s 1/1000", "millisecond milliseconds msec \u6beb\u79d2"),
    "min": ("s 60", "mins minute minutes \u5206\u949f \u5206"),
    "h": ("s 3600", "hr hrs hour hours \u5c0f\u65f6"),
    "day": ("s 86400", "days \u5929"),
    "week": ("s 604800", "weeks wk wks \u5468"),
    "L": ("m^3 1/1000", "l liter litre liters litres \u5347"),
    "mL": ("m^3 1/1000000", "ml milliliter millilitre milliliters millilitres \u6beb\u5347"),
    "ha": ("m^2 10000", "hectare hectares"),
    "mph": ("m s^-1 1609344/3600000", ""),
    "kmh": ("m s^-1 1000/3600", "kph"),
    "N": ("g m s^-2 1000", "newton newtons"),
    "J": ("g m^2 s^-2 1000", "joule joules"),
    "kJ": ("g m^2 s^-2 1000000", "kilojoule kilojoules"),
    "W": ("g m^2 s^-3 1000", "watt watts"),
    "kW": ("g m^2 s^-3 1000000", "kilowatt kilowatts"),
    "Pa": ("g m^-1 s^-2 1000", "pascal pascals"),
    "kPa": ("g m^-1 s^-2 1000000", ""),
    "Hz": ("s^-1 1", "hertz"),
    "kHz": ("s^-1 1000", ""),
    "MHz": ("s^-1 1000000", ""),
    "GHz": ("s^-1 1000000000", ""),
    "V": ("volt 1", "volts"),
    "mV": ("volt 1/1000", ""),
    "A": ("ampere 1", "amp amps amperes"),
    "mA": ("ampere 1/1000", ""),
    "ohm": ("ohm 1", "ohms \u03c9 \u2126"),
    "mol": ("mole 1", "moles"),
    "degree": ("degree 1", "degrees deg \u5ea6"),
    "celsius": ("celsius 1", "\u2103"),
    "fahrenheit": ("fahrenheit 1", "\u2109"),
    "kelvin": ("kelvin 1", "kelvins"),
    "rad": ("radian 1", "radian radians"),
    "bit": ("bit 1", "bits"),
    "byte": ("bit 8", "bytes"),
    "KB": ("bit 8000", "kb kilobyte kilobytes"),
    "MB": ("bit 8000000", "megabyte megabytes"),
    "GB": ("bit 8000000000", "gb gigabyte gigabytes"),
    "TB": ("bit 8000000000000", "terabyte terabytes"),
    "$": ("dollar 1", "dollars usd"),
    "cent": ("dollar 1/100", "cents \u00a2"),
    "\u20ac": ("euro 1", "euros eur"),
    "\u00a3": ("sterling 1", "gbp"),
    "\u00a5": ("yuan 1", "yuan rmb cny \u5143"),
    "\u20b9": ("rupee 1", "rupees inr"),
    "person": ("person 1", "people persons \u4eba"),
    "child": ("child 1", "children kid kids"),
    "man": ("man 1", "men"),
    "woman": ("woman 1", "women"),
}  # fmt: skip
"""Name -> "base units and size", further names."""
CURRENCY_SIGNS = "$\u20ac\u00a3\u00a5\u20b9"
_COUNTERS = frozenset(
    [
        "unit",
        "units",
        "one",
        "ones",
        "item",
        "items",
        "object",
        "objects",
        "thing",
        "things",
        "piece",
        "pieces",
        "time",
        "times",
        "total",
        "altogether",
        "in",
        "all",
        "overall",
        "different",
        "distinct",
        "more",
        "number",
        "of",
        "the",
        "whole",
    ]
) | {"\u4e2a", "\u53ea", "\u6761", "\u5f20", "\u6b21", "\u4ef6", "\u4f4d", "\u8258", "\u8f86", "\u5757", "\u5ea7"}
"""Words behind a number that say nothing about what is counted."""


def _units() -> dict[str, Unit]:
    units = {}
    for name, (meaning, others) in _TABLE.items():
        *bases, size = meaning.split()
        dimension = frozenset((base, int(power or 1)) for base, _, power in (part.partition("^") for part in bases))
        unit = Unit(dimension, Fraction(size))
        for spelling in (name, name.lower(), *others.split()):
            units.setdefault(spelling, unit)
    del units["a"]  # the article
    return units


_UNITS = _units()
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cubed": 3, "\u5e73\u65b9": 2, "\u7acb\u65b9": 3}
_FACTOR = re.compile(
    r"(?P<over>\s*/\s*|\s+per\s+)?\s*[*.\u00b7]?\s*(?P<name>[^\W\d_]+|[$\u00a2\u20ac\u00a3\u00a5\u20b9\u2103\u2109])\.?(?:\s?\^\s?\{?(?P<power>-?\d)\}?|(?P<plain>[23](?!\d)))?"
)


def known(name: str) -> Unit | None:
    """The unit of a name from the table; None for any other word.

    >>> known("kg").size, known("Seconds").dimension, known("boats")
    (Fraction(1000, 1), frozenset({('s', 1)}), None)
    """
    return _UNITS.get(name) or _UNITS.get(name.lower())


@functools.lru_cache(maxsize=4096)
def read_unit(text: str) -> Unit:
    """The unit that a text names: one of the table, a product or quotient of those, or else a noun; BARE for nothing.

    >>> read_unit("km/h") == read_unit("kilometers per hour"), read_unit("square meters") == read_unit("m^2")
    (True, True)
    >>> read_unit("red apples") == read_unit("apples"), read_unit("units") == BARE
    (True, True)
    """
    text = _TEMPERATURE.sub(lambda match: _SCALES[match[1][0].lower()], text).strip()
    unit = _product(text)
    return _noun(text) if unit is None else unit


_TEMPERATURE = re.compile(r"degrees?\s?(celsius|fahrenheit|c|f)(?![a-z])", re.IGNORECASE)
_SCALES = {"c": "celsius", "f": "fahrenheit"}


def _product(text: str) -> Unit | None:
    """A unit made of units of the table; None where another word stands in between."""
    powers: Counter[str] = Counter()
    size, place, is_over, pending = Fraction(1), 0, False, 1
    while place < len(text):
        match = _FACTOR.match(text, place)
        if match is None or match.end() == place:
            return None
        place = match.end()
        is_over = is_over or bool(match["over"])
        name = match["name"]
        if name.lower() in _POWERS:
            if name.lower().endswith("ed"):
                return None  # "seconds squared" is rare, "7 squared" is a power
            pending = _POWERS[name.lower()]
            continue
        unit = known(name)
        if unit is None:
            return None
        power = int(match["power"] or match["plain"] or pending) * (-1 if is_over else 1)
        pending = 1
        for base, exponent in unit.dimension:
            powers[base] += exponent * power
        size *= unit.size**power
    if not powers:
        return BARE if not text else None
    return Unit(frozenset((base, power) for base, power in powers.items() if power), size)


_WORD = re.compile(r"[^\W\d_]+")


def _noun(text: str) -> Unit:
    """The last word that counts as a unit of its own; "red apples" are apples."""
    words = [word for word in _WORD.findall(text.lower()) if word not in _COUNTERS]
    if not words:
        return BARE
    unit = known(words[-1])
    if unit is not None and len(words) == 1:
        return unit
    return Unit(frozenset({(_singular(words[-1]), 1)}), Fraction(1))


def _singular(word: str) -> str:
    if len(word) <= 3 or word.endswith("ss"):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("shes", "ches", "xes", "sses")):
        return word[:-2]
    return word.removesuffix("s")


_ANGLES = frozenset({("degree", 1)})
_TEMPERATURES = (frozenset({("celsius", 1)}), frozenset({("fahrenheit", 1)}))


def factor(unit: Unit, other: Unit) -> Fraction | None:
    """The factor from `unit` to `other`; 1 where one is bare, None where they differ.

    >>> factor(read_unit("m"), read_unit("cm")), factor(read_unit("m"), BARE), factor(read_unit("m"), read_unit("kg"))
    (Fraction(100, 1), Fraction(1, 1), None)
    """
    if not unit.dimension or not other.dimension:
        return Fraction(1)
    if unit.dimension == other.dimension:
        return unit.size / other.size
    both = (unit.dimension, other.dimension)
    if _ANGLES in both and (both[0] in _TEMPERATURES or both[1] in _TEMPERATURES):
        return Fraction(1)  # "30 degrees" of a temperature
    return None
