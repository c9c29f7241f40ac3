"""Scripts for tests of the page: what a run reports, and what a browser does."""

from __future__ import annotations

# Three series: from zero, far from it, and large.
RANGES = """
import json
def emit(name, value, step): print(json.dumps(dict(type="metric", name=name, value=value, step=step)))
for n in range(21):
    emit("wide", n / 10, n * 1000)
    emit("narrow", 15000 + n / 2, 15000 + n)
    emit("huge", n * 4e8, n * 2_000_000)
for n in range(3000):
    emit("constant", 0.1, n)
"""
# After the next click the page stands still for longer than it may take to answer a question of the server.
BUSY_AFTER_CLICK = """
const block = () => { const end = Date.now() + 2500; while (Date.now() < end); };
document.addEventListener("click", () => setTimeout(block), { once: true, capture: true });
"""
