"""Render the answer as an HTML page: one file that loads nothing else.

Log lines never become part of the page's markup: they are embedded as data, and the script adds them as text. A content
security policy forbids all requests.
"""

import base64
import hashlib
import json
from importlib import resources
from string import Template

from holdfast.explain.report.answer import Answer
from holdfast.explain.report.html.data import page_data

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
"""Scripts in the order of their dependencies."""


def render_page(answer: Answer) -> str:
    style = _read_asset("page.css")
    script = "\n".join(["'use strict';", *(_read_asset(name) for name in _SCRIPTS)])
    return Template(_read_asset("page.html")).substitute(
        policy=_policy(style, script),
        style=style,
        script=script,
        data=_escape(json.dumps(page_data(answer), separators=(",", ":"))),
    )


def _read_asset(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """Return a policy that allows exactly this script and this style, by hash, and no requests."""
    return f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _escape(text: str) -> str:
    """Escape JSON so that no text in it can close the script element."""
    return text.replace("<", "\\u003c")
