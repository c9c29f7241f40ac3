"""The frame of every page: header, navigation, theme, and the connection state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from nicegui import app, ui

from runspine.services.dashboard.pages.elements.context import PageContext, Visitor

NAVIGATION = (
    ("Runs", "/", "view_list"),
    ("New run", "/new", "add_circle_outline"),
    ("Play", "/play", "sports_esports"),
    ("Checkpoints", "/checkpoints", "inventory_2"),
    ("Compare", "/compare", "stacked_line_chart"),
    ("Fleet", "/fleet", "dns"),
    ("New page", "/app", "bolt"),
)
THEMES = {"auto": None, "light": False, "dark": True}
THEME_ICONS = {"auto": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}
# On a busy machine a page takes longer to build than NiceGUI's default of three seconds.
PAGE_TIMEOUT_SECONDS = 30.0
HEAD = """
<link rel="icon" href="/static/icon.svg">
<link rel="stylesheet" href="/static/runspine.css">
<script src="/static/cells.js"></script>
"""


def page(path: str) -> ui.page:
    """Decorator of the function that draws the page at this address."""
    return ui.page(path, response_timeout=PAGE_TIMEOUT_SECONDS)


@contextlib.contextmanager
def frame(context: PageContext, visitor: Visitor, title: str, here: str) -> Iterator[None]:
    """Draw the frame; the body of the `with` is the page's content."""
    ui.page_title(f"{title} · Runspine")
    ui.add_head_html(HEAD)
    context.refresher.track_visibility()
    ui.run_javascript("rs.watchSession()")
    ui.colors(
        primary="#0f766e", secondary="#35606b", accent="#b45309", positive="#15803d", negative="#b3261e"
    )
    with ui.header().classes("rs-header"):
        ui.link("Skip to content", "#main").classes("rs-skip")
        with ui.link(target="/").classes("rs-brand").props('aria-label="Runspine, all runs"'):
            ui.image("/static/icon.svg").classes("rs-logo").props('no-spinner alt=""')
            ui.label("Runspine")
        with ui.element("nav").classes("rs-nav").props('aria-label="Main"'):
            for name, path, icon in NAVIGATION:
                _nav_link(name, path, icon, path == here)
        ui.space()
        _live_badge(context)
        _theme_button()
        _person(context, visitor)
    _trouble_bar(context)
    with ui.element("main").classes("rs-main").props('id="main" tabindex="-1"'):
        yield


def _nav_link(name: str, path: str, icon: str, current: bool) -> None:
    with ui.link(target=path).classes("rs-nav-link" + (" rs-here" if current else "")) as link:
        ui.icon(icon).props('aria-hidden="true"')
        ui.label(name)
    if current:
        link.props('aria-current="page"')


def _live_badge(context: PageContext) -> None:
    badge = ui.label().classes("rs-live").props('role="status"')
    with badge:
        tooltip = ui.tooltip("")

    def refresh() -> None:
        trouble = context.runs.trouble
        badge.set_text("live" if not trouble else "not live")
        badge.classes(add="rs-live-bad" if trouble else "", remove="" if trouble else "rs-live-bad")
        tooltip.set_text(trouble or "connected: changes are shown as they happen")

    refresh()
    context.refresher.every(0.5, refresh)


def _trouble_bar(context: PageContext) -> None:
    """A bar with the reason while updates do not arrive."""
    bar = ui.label().classes("rs-trouble").props('role="alert"')

    def refresh() -> None:
        trouble = context.runs.trouble
        bar.set_text(f"The data shown may be out of date: {trouble}" if trouble else "")
        bar.set_visibility(bool(trouble))

    refresh()
    context.refresher.every(0.5, refresh)


def _theme_button() -> None:
    stored = app.storage.user.get("theme", "auto")
    theme = stored if stored in THEMES else "auto"
    dark = ui.dark_mode(THEMES[theme])

    def turn() -> None:
        names = list(THEMES)
        chosen = names[(names.index(app.storage.user.get("theme", "auto")) + 1) % len(names)]
        app.storage.user["theme"] = chosen
        dark.set_value(THEMES[chosen])
        button.props(f'icon={THEME_ICONS[chosen]} aria-label="Theme: {chosen}"')

    button = ui.button(on_click=turn).props(
        f'flat round dense color=white icon={THEME_ICONS[theme]} aria-label="Theme: {theme}"'
    )


def _person(context: PageContext, visitor: Visitor) -> None:
    if context.login.is_open:
        return
    with (
        ui.button(icon="account_circle").props('flat round dense color=white aria-label="Account"'),
        ui.menu(),
    ):
        ui.label(visitor.person.name).classes("rs-menu-name")
        ui.label("read-only" if not visitor.person.may_run else f"scope {visitor.person.scope}").classes(
            "rs-menu-scope"
        )
        if visitor.person.scope == "admin":
            ui.menu_item("Audit trail", lambda: ui.navigate.to("/audit"))
        ui.menu_item("Log out", lambda: ui.run_javascript(LOG_OUT))


LOG_OUT = "fetch('/logout', {method: 'POST'}).then(() => location.assign('/login'))"
