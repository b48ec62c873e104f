"""Drawings and pages: right ones score more than wrong ones, and nothing outside the text is touched."""

import base64
import os
import socket
import sys

import numpy as np
import pytest

from easyvideor1.errors import DataError
from easyvideor1.rewards.html import read_html
from easyvideor1.rewards.picture import SIZE, paint
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.rewards.router import check, score
from easyvideor1.rewards.svg import UnreadableSvgError, read_svg
from easyvideor1.types import Sample

OPEN = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 200">'
SCENE = (
    f'{OPEN}<rect x="20" y="20" width="60" height="60" fill="red"/>'
    '<circle cx="140" cy="140" r="40" fill="#0000ff"/><line x1="0" y1="190" x2="200" y2="190" stroke="black"/></svg>'
)


def judge(gold: str, answer: str, problem_type: str = "svg-code") -> float:
    sample = Sample(id="s", problem_type=problem_type, problem="", gold=gold)
    return score(sample, f"<answer>{answer}</answer>").parts["accuracy"]


SAME_PICTURES = (
    SCENE,
    f"```svg\n{SCENE}\n```",
    f"```xml\n{SCENE}\n```",
    f"Here it is:\n{SCENE}\nEnjoy.",
    f'<?xml version="1.0"?>\n<!-- a scene -->{SCENE}',
    f'<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/x.dtd">{SCENE}',
    SCENE.replace('fill="red"', 'fill="#ff0000"'),
    SCENE.replace('fill="red"', 'style="fill: rgb(255, 0, 0)"'),
    SCENE.replace("<rect", '<rect rx="0" opacity="1"'),
    SCENE.replace('viewBox="0 0 200 200"', 'width="200" height="200"'),
    SCENE.replace('viewBox="0 0 200 200"', 'viewBox="0,0,200,200" width="900px" height="900px"'),
    SCENE.replace('<rect x="20" y="20" width="60" height="60" fill="red"/>', '<path fill="red" d="M20 20h60v60H20Z"/>'),
    SCENE.replace('<rect x="20" y="20"', '<rect transform="translate(20,20)"'),
    SCENE.replace('<rect x="20" y="20" width="60" height="60"', '<polygon points="20,20 80,20 80,80 20,80"'),
    SCENE.replace("<rect", "<g fill='red'><rect").replace('fill="red"/>', "/></g>"),
    SCENE.replace('fill="red"/>', 'class="a"/><style>.a{fill:red}</style>'),
    SCENE.replace("<rect", '<defs><rect id="r"').replace('fill="red"/>', 'fill="red"/></defs><use href="#r"/>'),
    SCENE.replace('<circle cx="140" cy="140" r="40"', '<ellipse cx="140" cy="140" rx="40" ry="40"'),
)


@pytest.mark.parametrize("answer", SAME_PICTURES)
def test_the_same_picture_scores_about_one_however_it_is_written(answer):
    assert judge(SCENE, answer) > 0.99


def test_a_circle_of_arcs_is_a_circle():
    arcs = '<path fill="#0000ff" d="M100 140 a40 40 0 1 1 80 0 a40 40 0 11-80 0z"/>'
    assert judge(SCENE, SCENE.replace('<circle cx="140" cy="140" r="40" fill="#0000ff"/>', arcs)) > 0.98


WORSE_PICTURES = {
    "wrong colour": (SCENE.replace("red", "lime"), 0.3, 0.9),
    "wrong place": (SCENE.replace('x="20" y="20"', 'x="120" y="20"'), 0.3, 0.8),
    "one object missing": (SCENE.replace('<circle cx="140" cy="140" r="40" fill="#0000ff"/>', ""), 0.2, 0.85),
    "blank": (OPEN + "</svg>", 0.0, 0.15),
    "all black": (OPEN + '<rect width="200" height="200"/></svg>', 0.0, 0.35),
    "something else": (OPEN + '<path d="M0 0L200 200L0 200Z" fill="orange"/></svg>', 0.0, 0.5),
}


@pytest.mark.parametrize("name", WORSE_PICTURES)
def test_a_worse_picture_scores_less(name):
    answer, low, high = WORSE_PICTURES[name]
    assert low <= judge(SCENE, answer) <= high


GRADIENT = (
    f'{OPEN}<defs><linearGradient id="g"><stop offset="0" stop-color="red"/><stop offset="1" stop-color="blue"/>'
    '</linearGradient></defs><rect width="200" height="200" fill="url(#g)"/></svg>'
)
RING = f'{OPEN}<path d="M20 20h160v160H20z M60 60h80v80H60z"/></svg>'


@pytest.mark.parametrize(
    ("gold", "other"),
    [
        (GRADIENT, f'{OPEN}<rect width="200" height="200" fill="blue"/></svg>'),
        (GRADIENT, f'{OPEN}<rect width="200" height="200" fill="#800080"/></svg>'),  # its middle
        (RING, RING.replace("<path", '<path fill-rule="evenodd"')),  # the default rule fills both squares
        (f'{OPEN}<svg x="100" width="100" height="200"><rect width="50%" height="200"/></svg></svg>',
         f'{OPEN}<rect width="100" height="200"/></svg>'),  # percents are of the nested viewport
        (f'{OPEN}<rect width="1cm" height="1cm"/></svg>', f'{OPEN}<rect width="1" height="1"/></svg>'),
        (f'{OPEN}<line y1="99" x2="200" y2="99" stroke="red" stroke-width="20" stroke-dasharray="20"/></svg>',
         f'{OPEN}<line y1="99" x2="200" y2="99" stroke="red" stroke-width="20"/></svg>'),
        (f'{OPEN}<filter id="f"><feGaussianBlur stdDeviation="20"/></filter>'
         '<rect x="60" y="60" width="80" height="80" filter="url(#f)"/></svg>',
         f'{OPEN}<rect x="60" y="60" width="80" height="80"/></svg>'),
        (f'{OPEN}<clipPath id="c"><circle cx="50" cy="50" r="40"/></clipPath>'
         '<rect width="200" height="200" clip-path="url(#c)"/></svg>', f'{OPEN}<rect width="200" height="200"/></svg>'),
    ],
)  # fmt: skip
def test_a_renderer_tells_apart_what_a_drawing_shows(gold, other):
    assert judge(gold, gold) == judge(other, other) == 1
    assert judge(gold, other) < 0.9
    assert judge(other, gold) < 0.9


def test_the_words_of_a_drawing_count_in_any_script():
    def sign(text: str) -> str:
        return f'{OPEN}<rect width="200" height="200" fill="teal"/><text x="20" y="99">{text}</text></svg>'

    assert judge(sign("EXIT"), sign("EXIT")) == judge(sign("\u51fa\u53e3"), sign("\u51fa\u53e3")) == 1
    assert judge(sign("EXIT"), sign("STOP")) < 0.85
    assert judge(sign("\u51fa\u53e3"), sign("\u5165\u53e3")) < 0.95


HEAVY_DRAWINGS = {
    "a filter over and over": '<filter id="f"><feGaussianBlur stdDeviation="50"/></filter>'
    + '<g filter="url(#f)">' * 40 + "<rect/>" + "</g>" * 40,
    "a filter far larger than the picture": '<filter id="f" x="-99" width="200">'
    '<feGaussianBlur stdDeviation="9"/></filter><rect filter="url(#f)"/>',
    "noise of many octaves": '<filter id="f"><feTurbulence numOctaves="200000"/></filter><rect filter="url(#f)"/>',
    "a thick filter": '<filter id="f"><feMorphology radius="5000"/></filter><rect filter="url(#f)"/>',
    "tiny dashes": '<path d="M0 0L200 200" stroke="red" stroke-dasharray="0.001"/>' * 40,
    "masks in masks": "".join(f'<mask id="m{i}" mask="url(#m{i + 1})"><rect/></mask>' for i in range(80))
    + '<rect mask="url(#m0)"/>',
    "layers without end": '<g opacity="0.9"><rect width="200" height="200"/></g>' * 1500,
    "a long text": f'<text font-size="500">{"W" * 60_000}</text>',
    "markers on every corner": '<marker id="m"><rect/></marker>'
    + f'<path marker-mid="url(#m)" d="M0 0{"L1 1" * 9000}"/>',
    "a circle of uses": '<g id="a"><use href="#b"/></g><g id="b"><use href="#a"/></g>',
    "no picture": '<image href="data:image/png;base64,AAAA"/>',
}  # fmt: skip


@pytest.mark.parametrize("name", HEAVY_DRAWINGS)
def test_drawings_that_would_take_long_are_refused_before_they_are_drawn(name):
    with pytest.raises(UnreadableSvgError):
        read_svg(f"{OPEN}{HEAVY_DRAWINGS[name]}</svg>")


def test_nearer_pictures_score_more():
    shifted = [judge(SCENE, SCENE.replace('x="20" y="20"', f'x="{20 + shift}" y="20"')) for shift in (0, 4, 15, 50)]
    assert shifted == sorted(shifted, reverse=True)
    assert shifted[1] > 0.85


def test_a_right_background_alone_does_not_hide_wrong_objects():
    sky = OPEN + '<rect width="200" height="200" fill="skyblue"/>'
    gold = sky + '<circle cx="60" cy="60" r="30" fill="yellow"/></svg>'
    assert judge(gold, sky + "</svg>") < 0.6
    assert judge(gold, sky + '<circle cx="60" cy="60" r="28" fill="yellow"/></svg>') > 0.8


NO_DRAWINGS = (
    "", "no drawing", "<svg", "<svg><rect></svg>", SCENE[:-20], f"{OPEN}<rect></g></svg>", "<html></html>",
    f"{OPEN}&nbsp;</svg>", f"{OPEN}<rect width=20/></svg>", '<svg viewBox="0 0 0 0"></svg>', "<svg>" * 4000,
    f"{OPEN}{'<g>' * 500}{'</g>' * 500}</svg>", f"{OPEN}{'<g/>' * 6000}</svg>", '<svg viewBox="0 0 NaN 5"></svg>',
)  # fmt: skip


@pytest.mark.parametrize("answer", NO_DRAWINGS)
def test_text_that_is_no_moderate_drawing_scores_zero(answer):
    assert judge(SCENE, answer) == 0


@pytest.mark.parametrize("value", ["1e400", "-1e400", "NaN", "9" * 300, "1e308", "-5", "abc", "%", "1e9%"])
def test_absurd_numbers_are_harmless(value):
    rest = SCENE.removeprefix(OPEN)
    for attribute in ('x="20"', 'r="40"', 'x2="200"', 'width="60"'):
        name = attribute.split("=")[0]
        assert 0 <= judge(SCENE, OPEN + rest.replace(attribute, f'{name}="{value}"')) <= 1
    for tag in (
        f'<path d="M0 0 L {value} 5 A {value} 3 0 1 1 9 {value} Z"/>',
        f'<g transform="scale({value})"><rect width="9" height="9"/></g>',
    ):
        assert 0 <= judge(SCENE, f"{OPEN}{tag}</svg>") <= 1
    assert 0 <= judge(SCENE, f'<svg width="{value}" height="{value}">{rest}') <= 1
    assert 0 <= judge(SCENE, f'{OPEN}<line x2="99" stroke="red" stroke-width="{value}"/></svg>') <= 1
    assert 0 <= judge(SCENE, f'{OPEN}<text x="9" y="9" font-size="{value}">hello</text></svg>') <= 1


def test_painted_pixels_are_where_the_numbers_say():
    picture = paint(read_svg('<svg viewBox="0 0 2 1"><rect x="1" width="1" height="1" fill="blue"/></svg>')).pixels
    assert picture.shape == (SIZE, SIZE, 3)
    blue = np.all(picture == [0, 0, 255], axis=2)
    rows, columns = np.nonzero(blue)
    half = SIZE // 2
    # Twice as wide as high: the lower and upper quarters of the square canvas stay white.
    assert (rows.min(), rows.max()) == pytest.approx((half // 2, half + half // 2), abs=1)
    assert (columns.min(), columns.max()) == pytest.approx((half, SIZE - 1), abs=1)
    assert np.all(picture[~blue] == 255)


PAGE = (
    "<!DOCTYPE html><html><head><title>Zoo</title></head>"
    "<body><h1>Welcome</h1><ul><li>Lions</li><li>Bears</li></ul></body></html>"
)


@pytest.mark.parametrize(
    ("answer", "low", "high"),
    [
        (PAGE, 1, 1),
        (f"```html\n{PAGE}\n```", 1, 1),
        (f"Here is the page:\n```html\n{PAGE}\n```\nIt lists the animals.", 1, 1),
        (f"```html\n{PAGE}", 1, 1),
        (PAGE.replace("><", ">\n  <"), 1, 1),
        (PAGE.replace("<h1>", '<h1 class="big">'), 1, 1),
        (PAGE.replace("Bears", "Apes"), 0.8, 0.95),
        (PAGE.replace("Welcome", "x").replace("Lions", "y").replace("Bears", "z").replace("Zoo", "w"), 0.4, 0.6),
        (PAGE.replace("<li>Bears</li>", ""), 0.8, 0.97),
        ("<html><head><title><body><h1><ul><li><li>" + "x" * 90, 0, 0.5),
        ("<div>Welcome</div>", 0, 0.5),
        ("Sorry, I cannot.", 0, 0),
        ("", 0, 0),
        ("<" * 5000, 0, 0.1),
        ("<div" * 12_000, 0, 0),
        ("<div x='" * 5000, 0, 0),
        ("<div>" * 3000, 0, 0.1),
    ],
)
def test_pages_are_compared_by_tree_and_words(answer, low, high):
    assert low <= judge(PAGE, answer, "html-code") <= high


@pytest.mark.parametrize(
    "hidden",
    [
        '<p style="display:none">Hi there</p>', '<p style="DISPLAY : none !important">Hi there</p>',
        "<p hidden>Hi there</p>",
        '<p style="visibility: hidden">Hi there</p>', '<p style="opacity:0">Hi there</p>',
        '<p style="font-size:0px">Hi there</p>',
        '<style>.x { display: none }</style><p class="x y">Hi there</p>',
        "<style>p{display:none}</style><p>Hi there</p>",
        '<p id="a">Hi there</p><style>#a{visibility:hidden}</style>', "<details><p>Hi there</p></details>",
        "<dialog><p>Hi there</p></dialog>", '<input type="hidden" value="Hi there">',
        "<template><p>Hi there</p></template>",
        '<div style="display:none"><p>Hi there</p></div>', '<p style="position:absolute;left:-9999px">Hi there</p>',
        '<p style="height:0;overflow:hidden">Hi there</p>', '<p style="max-height: 0px; overflow: clip">Hi there</p>',
        '<p style="transform:scale(0)">Hi there</p>', '<p style="clip-path:inset(100%)">Hi there</p>',
        '<p style="clip: rect(0, 0, 0, 0)">Hi there</p>', '<p style="color:transparent">Hi there</p>',
        '<p style="color:rgba(0,0,0,0)">Hi there</p>', '<p style="color:#ff000000">Hi there</p>',
        '<p style="color:white;background:#fff">Hi there</p>', '<p style="content-visibility:hidden">Hi there</p>',
        '<p style="filter:opacity(0)">Hi there</p>',
        "<style>div p{display:none}</style><div><b><p>Hi there</p></b></div>",
        '<style>.a > p.b{display:none}</style><div class="a"><p class="b">Hi there</p></div>',
    ],
)  # fmt: skip
def test_what_is_hidden_on_a_page_is_not_visible(hidden):
    page = read_html(hidden)
    assert page is not None
    assert page.words == ()
    assert judge("<p>Hi there</p>", hidden, "html-code") <= 0.5


def test_what_is_shown_on_a_page_is_visible():
    for shown in (
        "<details open><p>Hi there</p></details>", "<details><summary>Hi there</summary></details>",
        '<p style="display:block">Hi there</p>', "<style>@media print{p{display:none}}</style><p>Hi there</p>",
        '<p style="color:rgb(255,0,0)">Hi there</p>', '<p style="transform:scale(0.5)">Hi there</p>',
        '<p style="height:0">Hi there</p>', '<p style="color:white;background:red">Hi there</p>',
        "<style>div p{display:none}</style><p>Hi there</p><div></div>", '<p style="clip-path:inset(0)">Hi there</p>',
        '<p style="color:hsl(0 100% 50% / 1)">Hi there</p>', '<p style="filter:opacity(0.5)">Hi there</p>',
    ):  # fmt: skip
        page = read_html(shown)
        assert page is not None
        assert page.words == ("hi", "there"), shown


def test_styling_counts_a_fifth_where_the_gold_has_any():
    red = '<p style="color:red">Hi there</p>'
    assert judge(red, red, "html-code") == 1
    assert judge(red, "<p>Hi there</p>", "html-code") == pytest.approx(0.8)
    assert judge(red, '<p style="color: blue">Hi there</p>', "html-code") == pytest.approx(0.8)
    assert judge(red, "<style>p {color: RED}</style><p>Hi there</p>", "html-code") > 0.85  # one more element, same look
    assert judge("<p>Hi there</p>", red, "html-code") == 1
    for same in ("color:#f00", "color:#FF0000", "color: rgb(255, 0, 0)", "color:hsl(0, 100%, 50%)"):
        assert judge(red, f'<p style="{same}">Hi there</p>', "html-code") == 1, same
    border = '<p style="border:1px solid red;margin:0px">Hi there</p>'
    assert judge(border, '<p style="margin: 0; border: 1px solid #f00">Hi there</p>', "html-code") == 1


def test_scripts_and_styles_of_pages_are_not_visible_words():
    assert judge(PAGE, PAGE.replace("<body>", "<body><script>Lions()</script>"), "html-code") > 0.9


@pytest.mark.parametrize(
    ("answer", "accuracy"),
    [
        ("def f(x):\n    return x + 1", 1),
        ("```python\ndef f(x):  # add\n    return (x+1)\n```", 1),
        ("This adds one:\n```python\ndef f(x):\n    return x + 1\n```\nDone.", 1),
        ("def f(x):\n    return x - 1", 0),
        ("def f(x): return x +", 0),
        ("import os; os.remove('/')", 0),
        ("(" * 9000, 0),
    ],
)
def test_programs_are_compared_as_text_and_never_run(answer, accuracy):
    assert judge("def f(x):\n    return x + 1", answer, "python") == accuracy


def hostile_drawings(path: str, port: int) -> list[str]:
    """Drawings and pages that try to read a file, to open a socket, or to run something."""
    file, url = f"file://{path}", f"http://127.0.0.1:{port}/x.png"
    inside = [
        f'<image href="{url}" width="9" height="9"/>', f'<image xlink:href="{file}" width="9" height="9"/>',
        f'<use href="{url}#a"/>', f'<image href="{path}"/>', f'<rect width="9" height="9" fill="url({url}#g)"/>',
        f"<style>@import '{url}';</style>", f"<style>rect{{fill:url({file})}}</style>", f'<script href="{url}"/>',
        f"<script>fetch('{url}')</script>", f"<foreignObject><iframe src='{url}'/></foreignObject>",
        f'<rect onload="fetch(\'{url}\')" width="5" height="5"/>', f'<a href="javascript:fetch(\'{url}\')"><rect/></a>',
        f'<feImage href="{url}"/>', '<set attributeName="href" onbegin="x()"/>',
    ]  # fmt: skip
    drawings = [f"{OPEN}{tag}</svg>" for tag in inside]
    drawings += [
        f'<!DOCTYPE svg [<!ENTITY x SYSTEM "{file}">]>{OPEN}<text y="20">&x;</text></svg>',
        f'<!DOCTYPE svg SYSTEM "{url}">{OPEN}<image href="{url}"/></svg>',
        f'<!DOCTYPE svg [<!ENTITY % p SYSTEM "{url}">%p;]>{OPEN}</svg>',
        '<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>' + OPEN + "<text>&b;</text></svg>",
        f'<?xml-stylesheet href="{url}"?><svg onload="x()"/>',
    ]
    nested = base64.b64encode(f"{OPEN}<image href='{url}'/></svg>".encode()).decode()
    drawings += [
        f'{OPEN}<image href="{reference}" width="9" height="9"/></svg>'
        for reference in (
            f"data:text/html,{nested}",
            f"//127.0.0.1:{port}/x",
            f" {url}",
            f"HTTP{url[4:]}",
            f"jar:{file}",
        )
    ]
    bomb = "".join(
        f'<g id="g{n}">{f"<use href=&quot;#g{n - 1}&quot;/>".replace("&quot;", chr(34)) * 10}</g>' for n in range(1, 9)
    )
    drawings.append(f'{OPEN}<defs><rect id="g0" width="1" height="1"/>{bomb}</defs><use href="#g8"/></svg>')
    drawings.append(f'{OPEN}<g id="me"><use href="#me"/></g></svg>')
    return drawings


def hostile_page(path: str, port: int) -> str:
    """A page with everything that makes a browser fetch."""
    url = f"http://127.0.0.1:{port}/x"
    return (
        f'<html><head><base href="{url}"><meta http-equiv="refresh" content="0;url={url}"><link rel="stylesheet" '
        f'href="{url}"><style>@import "{url}";p{{background:url(file://{path})}}</style><script src="{url}"></script>'
        f'</head><body onload="fetch(\'{url}\')"><img src="{url}"><iframe src="file://{path}"></iframe>'
        f'<object data="{url}"></object><embed src="{url}"><video poster="{url}"></video></body></html>'
    )


def test_nothing_is_read_opened_or_run(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    os.utime(secret, (1, 1))
    touched: list[str] = []
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    port = listener.getsockname()[1]
    drawings = hostile_drawings(str(secret), port)

    def watch(event: str, arguments: tuple) -> None:
        if watching and event in ("open", "socket.connect", "subprocess.Popen", "os.system", "exec", "socket.__new__"):
            touched.append(f"{event} {arguments[:1]}")

    watching = False
    judge(SCENE, SCENE)  # what is imported late is imported now
    judge(PAGE, PAGE, "html-code")
    sys.addaudithook(watch)
    watching = True
    # The picture itself is right in each: what is unsafe must make it worth nothing.
    accuracies = [judge(SCENE, drawing.replace("</svg>", SCENE.removeprefix(OPEN), 1)) for drawing in drawings]
    pages = [judge(PAGE, page, "html-code") for page in [*drawings, hostile_page(str(secret), port)]]
    watching = False
    assert touched == []
    assert accuracies == [0.0] * len(drawings)
    assert all(0 <= accuracy < 0.5 for accuracy in pages)
    with pytest.raises(TimeoutError):
        listener.accept()
    listener.close()
    assert os.stat(secret).st_atime == 1


def test_hostile_drawings_leave_the_next_one_right():
    sample = Sample(id="s", problem_type="svg", problem="", gold=SCENE)
    texts = [text for hostile in hostile_drawings("/etc/hostname", 9) for text in (hostile, SCENE)]
    huge = '<svg width="2000000000" height="2000000000"><rect width="1999999999" height="5"/></svg>'
    with RewardPool(workers=1) as pool:
        scores = pool.score([(sample, f"<answer>{text}</answer>") for text in [*texts, huge, SCENE]])
    assert all(score.is_scored for score in scores)
    assert {score.parts["accuracy"] for score in scores[1::2]} == {1.0}
    assert max(score.parts["accuracy"] for score in scores[::2]) < 0.1


@pytest.mark.parametrize(
    ("problem_type", "gold"),
    [("svg", ""), ("svg", "<svg><script/></svg>"), ("svg", "<svg"), ("html", "just words"), ("python", " ")],
)
def test_gold_that_shows_nothing_is_a_data_error(problem_type, gold):
    with pytest.raises(DataError, match="field 'answer'"):
        check([Sample(id="s", problem_type=problem_type, problem="", gold=gold)])
