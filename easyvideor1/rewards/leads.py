"""Words that lead to an answer, in the languages models use: "The answer is", "Answer:", and the like."""

from __future__ import annotations

import re

OPTION_WORD = (
    r"option|choice|caption|sentence|statement|description|candidate|image|video|picture|clip"
    r"|\u9009\u9879|\u53e5\u5b50|\u63cf\u8ff0"
)
"""What stands before the label of an option: "Caption B"."""
_NOUN = (
    r"answer|ans|option|choice|letter|result|solution|conclusion|caption|sentence|statement|description"
    r"|antwort|l\u00f6sung|r\u00e9ponse|respuesta|resposta|risposta|soluci\u00f3n|odpowied\u017a|antwoord|cevap"
    r"|\u043e\u0442\u0432\u0435\u0442|\uc815\ub2f5|\ub2f5|\ub2f5\ubcc0|\u7b54\u3048|\u89e3\u7b54|\u56de\u7b54"
    r"|\u6b63\u89e3"
    r"|\u0627\u0644\u0625\u062c\u0627\u0628\u0629|\u0627\u0644\u062c\u0648\u0627\u0628|\u0909\u0924\u094d\u0924\u0930"
    r"|\u0e04\u0e33\u0e15\u0e2d\u0e1a|\u0111\u00e1p \u00e1n|jawaban"
)
_KIND = r"(?:final |correct |right |best |only |most likely |richtige |bonne |finale? |correcta |\ucd5c\uc885 )*+"
_LINK = (
    r"(?: is| would be| should be| must be| seems to be| appears to be|:|=| ?-> ?| -| est| ist| es| \u00e8| \u00e9"
    r"| \u0625\u0630\u0646|\uc740|\ub294|\u306f)*"
)
_CHINESE = (
    r"\u56e0\u6b64|\u6240\u4ee5|\u3010?(?:\u6b63\u786e|\u6700\u7ec8)?(?:\u7684)?(?:\u56de?\u7b54\u6848?|\u9009\u9879"
    r"|\u7ed3\u679c|\u7ed3\u8bba)"
    r"(?:\u662f|\u4e3a|\u5e94\u4e3a|\u5e94\u8be5\u662f)?\u3011?|\u6b63\u786e\u7684\u662f"
    r"|\u6211?[\u9009\u9078][\u62e9\u64c7]?"
)
_OPENING = (
    r"(?:(?:so|therefore|thus|hence|definitely|i think|i'd say|i would say|i believe|i guess|clearly)(?:,|:|,? that)? "
    r"|[\u2705\u2714\u2611#>]+\s*)"
)
ANSWER_LEAD = re.compile(
    rf"{_OPENING}*(?:(?:the |my |la |die |el |o |\u6211\u7684)?{_KIND}(?:{_NOUN})(?![A-Za-z]){_LINK}"
    rf"|(?:it is|it's|it should be|it must be|that is)(?= )|{_CHINESE}|(?<= )|(?<=[\u2705\u2714\u2611#>]))[\s:=,*_]*",
    re.IGNORECASE,
)
"""A lead at the start of an answer; an opening such as "I think" may stand alone."""
STATED = re.compile(
    rf"(?<![A-Za-z])(?:{_KIND}(?:{_NOUN})(?![A-Za-z])"
    r"(?:\s*(?:is|would be|should be|must be|seems to be|appears to be|est|ist|es|\u00e8|\u00e9|\uc740|\ub294"
    r"|\u306f)(?![A-Za-z])[\s:*_]*|[\s*_]*[:\uff1a=][\s*_]*|\s*->\s*)"
    r"|(?:\u6b63\u786e|\u6700\u7ec8)?(?:\u7b54\u6848|\u56de\u7b54|\u9009\u9879|\u7ed3\u8bba)(?:\u5e94\u8be5\u662f"
    r"|\u5e94\u4e3a|\u662f|\u4e3a|\s*[:\uff1a])\s*"
    r"|(?:i|i'd|i would|i'll|we|let's) (?:choose|pick|select|go with|go for|answer)\s+(?:option |with )?"
    r"|\u6211?[\u9009\u9078][\u62e9\u64c7]?\s*)",
    re.IGNORECASE,
)
"""Anywhere in a text, directly before the answer that is stated."""
