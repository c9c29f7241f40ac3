"""Addresses and output of W&B: what becomes part of a run, and what does not."""

from __future__ import annotations

import pytest

from runspine.domain.tracking import (
    MAX_URL_LENGTH,
    clean_url,
    label_after_export,
    label_text,
    merged,
    read_fields,
    read_folder,
    read_output,
    wandb_run,
)
from runspine.wire.v1.facts_pb2 import OFFLINE, SYNCED, SYNCING, Tracking

URL = "https://wandb.ai/me/cartpole/runs/abc123"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (URL, URL),
        ("http://wandb.example.org:8080/me/p/runs/x", "http://wandb.example.org:8080/me/p/runs/x"),
        ("https://user:secret@wandb.ai/me/p/runs/x", "https://wandb.ai/me/p/runs/x"),
        (f"{URL}?apiKey=0123456789abcdef#top", URL),
        ("http://[::1]:8080/a/b/runs/c", "http://[::1]:8080/a/b/runs/c"),
    ],
)
def test_an_address_is_kept_without_credentials(given: str, kept: str) -> None:
    assert clean_url(given) == kept


@pytest.mark.parametrize(
    "given",
    [
        "", "javascript:alert(1)", "file:///etc/passwd", "ftp://wandb.ai/x", "https://", "//wandb.ai/x",
        "wandb.ai/me",
        "https://wandb.ai/\x1b[31m", "https://wandb.ai/a b", 'https://wandb.ai/"onclick=', "https://wandb.ai:99999/x",
        "https://wandb.ai/é", "https://[wandb.ai/x", f"https://wandb.ai/{'x' * MAX_URL_LENGTH}", None, 7,
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_page_is_refused(given: object) -> None:
    assert clean_url(given) == ""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            f"wandb: 🚀 View run at {URL}",
            Tracking(url=URL, state=SYNCING, entity="me", project="cartpole", run="abc123"),
        ),
        (
            f"\x1b[34m\x1b[1mwandb\x1b[0m: 🚀 View run \x1b[33mfiery-sun-12\x1b[0m at: \x1b[34m{URL}\x1b[0m",
            Tracking(
                url=URL, state=SYNCING, entity="me", project="cartpole", run="abc123", name="fiery-sun-12"
            ),
        ),
        ("wandb: Syncing run fiery-sun-12", Tracking(name="fiery-sun-12", state=SYNCING)),
        ("wandb: Synced 5 W&B file(s), 0 media file(s), 2 artifact file(s)", Tracking(state=SYNCED)),
        ("wandb: W&B syncing is set to `offline` in this directory.", Tracking(state=OFFLINE)),
        ("wandb: You can sync this run to the cloud by running:", Tracking(state=OFFLINE)),
    ],
)
def test_wandbs_own_lines_are_understood(line: str, found: Tracking) -> None:
    found.service = "wandb"
    assert read_output(line) == found


@pytest.mark.parametrize(
    "line",
    [
        "wandb: ⭐️ View project at https://wandb.ai/me/cartpole",
        "View run at javascript:alert(1)",
        "Synced 5 W&B file(s)",
        "I use wandb: Synced 5 W&B file(s)",
        "wandb: Run history:",
        "View run at ",
    ],
)
def test_other_lines_state_nothing(line: str) -> None:
    assert read_output(line) is None


def test_a_folder_states_its_run_and_whether_it_is_offline() -> None:
    assert read_folder("run-20261118_042713-snsmiwi7") == Tracking(
        service="wandb", run="snsmiwi7", state=SYNCING
    )
    assert read_folder("offline-run-20261118_042713-snsmiwi7") == Tracking(
        service="wandb", run="snsmiwi7", state=OFFLINE
    )
    assert read_folder("latest-run") is None
    assert read_folder("run-20261118_042713-../../x") is None


def test_latest_run_json_gives_address_project_and_name() -> None:
    found = read_fields({"run_url": f"{URL}?apiKey=x", "display_name": "ppo\n1", "project": 7, "other": [1]})
    assert (found.url, found.entity, found.project, found.name, found.state) == (
        URL,
        "me",
        "7",
        "ppo 1",
        SYNCING,
    )
    assert read_fields({"mode": "offline", "project": "p"}) == Tracking(
        service="wandb", project="p", state=OFFLINE
    )


def test_the_address_printed_again_at_the_end_does_not_unsync() -> None:
    known = merged(wandb_run(URL), Tracking(state=SYNCED))
    again = read_output(f"wandb: View run x at: {URL}")
    assert again is not None
    assert merged(known, again).state == SYNCED
    assert merged(known, again).name == "x"


def test_another_run_of_the_trainer_replaces_the_one_before() -> None:
    known = merged(wandb_run(URL), Tracking(state=SYNCED, name="first"))
    second = merged(known, Tracking(service="wandb", run="other", state=SYNCING))
    assert second == Tracking(service="wandb", run="other", state=SYNCING)


@pytest.mark.parametrize(
    ("known", "url", "label"),
    [
        (
            "",
            "https://wandb.ai/lab/cartpole/runs/abc?apiKey=secret",
            "https://wandb.ai/lab/cartpole/runs/abc",
        ),
        ("offline", "https://wandb.ai/lab/cartpole/runs/abc", "https://wandb.ai/lab/cartpole/runs/abc"),
        ("https://wandb.ai/lab/cartpole/runs/abc", "", "https://wandb.ai/lab/cartpole/runs/abc"),
        ("", "", "offline"),
        ("", "javascript:alert(1)", "offline"),
    ],
)
def test_an_export_labels_its_run_with_the_address_and_never_loses_one(
    known: str, url: str, label: str
) -> None:
    assert label_after_export(known, url) == label
    assert label.removeprefix("https://") in label_text(label)


def test_a_label_that_is_no_address_is_not_shown_as_one() -> None:
    assert label_text("javascript:alert(1)") == ""
    assert label_text("") == ""
