"""The pages, one file each."""

from __future__ import annotations

from nicegui import ui

from services.dashboard.pages.checkpoints import add_checkpoints_page
from services.dashboard.pages.compare import add_compare_page
from services.dashboard.pages.desk import Desk
from services.dashboard.pages.fleet import add_fleet_page
from services.dashboard.pages.missing import add_missing_page
from services.dashboard.pages.new import add_new_page
from services.dashboard.pages.play import add_play_page
from services.dashboard.pages.run import add_run_page
from services.dashboard.pages.runs import add_runs_page


def add_pages(desk: Desk) -> None:
    ui.button.default_props("no-caps")
    add_runs_page(desk)
    add_run_page(desk)
    add_fleet_page(desk)
    add_new_page(desk)
    add_play_page(desk)
    add_checkpoints_page(desk)
    add_compare_page(desk)
    add_missing_page(desk)
