"""The answer as a page: one file that needs nothing else, and that nothing can make ask for anything else.

What logs say is never part of the page's own text: it is data, which the script puts on the page as text.
"""

import base64
import hashlib
import json
from importlib import resources
from string import Template

from holdfast.explain.report.answer import Answer
from holdfast.explain.report.html.data import data

_SCRIPTS = (
    "data.js",
    "element.js",
    "view.js",
    "frame.js",
    "lanes.js",
    "selection.js",
    "interactions.js",
    "details.js",
    "cards.js",
    "tables.js",
    "page.js",
)
"""In the order in which they need each other."""


def page(answer: Answer) -> str:
    style = _own("page.css")
    script = "\n".join(["'use strict';", *(_own(name) for name in _SCRIPTS)])
    return Template(_own("page.html")).substitute(
        policy=_policy(style, script),
        style=style,
        script=script,
        data=_harmless(json.dumps(data(answer), separators=(",", ":"))),
    )


def _own(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """This script and this style, and nothing else from anywhere: not even what stands in the page itself."""
    return f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _harmless(text: str) -> str:
    """The same JSON, without anything that could end the element it stands in."""
    return text.replace("<", "\\u003c")
