"""The login page: plain HTML, because nothing else is served without a session."""

from __future__ import annotations

from html import escape

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Runspine · log in</title>
<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/login.css">
</head><body><main><img src="/static/icon.svg" alt="" width="56" height="56"><h1>Runspine</h1>
<form method="post" action="/login"><label for="token">Access token</label>
<input id="token" name="token" type="password" autocomplete="current-password" autofocus required>
<input type="hidden" name="to" value="{to}">{problem}
<button>Log in</button></form>
<p>On the machine of an embedded stack, <code>runspine web</code> opens this page with its token.</p></main>
<script src="/static/login.js"></script></body></html>
"""


def login_page(to: str, *, problem: str = "") -> str:
    """The page; `problem` is why the last try failed."""
    alert = f'<p role="alert">{escape(problem)}</p>' if problem else ""
    return PAGE.format(to=escape(to, quote=True), problem=alert)
