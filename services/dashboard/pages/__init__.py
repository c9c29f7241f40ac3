"""NiceGUI pages of the dashboard: one folder or module per page."""

from __future__ import annotations

from nicegui import ui

from runspine.services.dashboard.pages.audit import add_audit_page
from runspine.services.dashboard.pages.checkpoints.page import add_checkpoints_page
from runspine.services.dashboard.pages.compare import add_compare_page
from runspine.services.dashboard.pages.elements.context import PageContext
from runspine.services.dashboard.pages.fleet.page import add_fleet_page
from runspine.services.dashboard.pages.missing import add_missing_page
from runspine.services.dashboard.pages.new_run.page import add_new_page
from runspine.services.dashboard.pages.play.page import add_play_page
from runspine.services.dashboard.pages.run.page import add_run_page
from runspine.services.dashboard.pages.runs.page import add_runs_page


def add_pages(context: PageContext) -> None:
    ui.button.default_props("no-caps")
    add_runs_page(context)
    add_run_page(context)
    add_fleet_page(context)
    add_new_page(context)
    add_play_page(context)
    add_checkpoints_page(context)
    add_compare_page(context)
    add_audit_page(context)
    add_missing_page(context)
