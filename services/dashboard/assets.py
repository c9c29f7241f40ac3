"""The folder of static files."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).with_name("static")
