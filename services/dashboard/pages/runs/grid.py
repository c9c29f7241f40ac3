"""Columns and AG Grid options of the runs table."""

from __future__ import annotations

from typing import Any

# Keys must be constants: NiceGUI evaluates the value of a key that begins with a colon.
COLUMNS: list[dict[str, Any]] = [
    {"headerName": "State", "field": "phase", ":cellRenderer": "rs.badge", "width": 110, "pinned": "left"},
    {"headerName": "Run", "field": "name", ":cellRenderer": "rs.name", "minWidth": 120, "flex": 3},
    {"headerName": "Env", "field": "env", "minWidth": 100, "flex": 2},
    {"headerName": "Algo", "field": "algo", "minWidth": 72, "flex": 1},
    {"headerName": "Seed", "field": "seed", "width": 64, "type": "numericColumn"},
    {"headerName": "Progress", "field": "part", ":cellRenderer": "rs.progress", "minWidth": 84, "flex": 2},
    {"headerName": "Return", "field": "last_return", ":cellRenderer": "rs.spark", "width": 150},
    {
        "headerName": "Steps/s", "field": "sps", ":valueFormatter": "rs.rate", "width": 86,
        "type": "numericColumn",
    },
    {
        "headerName": "Age", "field": "submitted", ":valueFormatter": "rs.age", "width": 74,
        ":comparator": "rs.byTime", "sort": "desc",
    },
    {"headerName": "Worker", "field": "worker", "minWidth": 80, "flex": 1},
    {
        "headerName": "Labels", "field": "labels", ":cellRenderer": "rs.labels", "minWidth": 100, "flex": 2,
        ":valueFormatter": "rs.none",
        "sortable": False,
    },
]  # fmt: skip
OPTIONS: dict[str, Any] = {
    "columnDefs": COLUMNS,
    "defaultColDef": {"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
    ":getRowId": "params => params.data.id",
    "rowSelection": {"mode": "multiRow", "enableClickSelection": False, "selectAll": "filtered"},
    "selectionColumnDef": {"width": 44, "pinned": "left"},
    "rowData": [],
    "animateRows": False,
    "rowHeight": 42,
    "asyncTransactionWaitMillis": 100,
    ":isExternalFilterPresent": "rs.filtering",
    ":doesExternalFilterPass": "rs.passes",
    ":onGridReady": "rs.ready",
    ":onCellKeyDown": "rs.keys",
    ":onModelUpdated": "rs.count",
    "overlayNoRowsTemplate": "<span class='rs-quiet'>No runs. Start one with New run.</span>",
    "ensureDomOrder": True,
}
