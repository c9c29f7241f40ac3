"""The fields of a new run, generated from the declaration of the chosen runner."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from runspine.services.dashboard.core.draft import (
    COMMON_FIELDS,
    LIMIT_FIELDS,
    RunDraft,
    from_plain,
    params_of,
)
from runspine.services.dashboard.pages.new_run.algorithm_panel import algorithm_panel
from runspine.services.dashboard.pages.new_run.fields import help_text, param_field, whole
from runspine.wire.v1.runner_pb2 import RunnerInfo

STARTER_SPECS: dict[str, dict[str, str]] = {
    "builtin": {"algo": "ppo", "env": "CartPole-v1"},
    "sb3": {"algo": "ppo", "env": "CartPole-v1"},
}
NUMBERS = ("seed", "total_steps", "priority", "gpus")
# Env ids offered for completion.
MAX_ENVS = 2000


class RunForm:
    def __init__(
        self,
        runners: Mapping[str, RunnerInfo],
        draft: RunDraft,
        touch: Callable[[], None],
        restart: Callable[[RunDraft], None],
    ) -> None:
        self._runners = runners
        self._draft = draft
        self._touch = touch
        self._restart = restart

    def draw(self) -> None:
        draft, info = self._draft, self._runners[self._draft.runner]
        ui.select(
            sorted(self._runners), value=draft.runner, label="Runner", on_change=self._choose_runner
        ).classes("w-full").props('data-testid="runner"')
        ui.label(info.not_ready or info.summary).classes("rs-bad" if info.not_ready else "rs-quiet")
        self._algo(info)
        self._env(info)
        if info.takes_command:
            self._command()
        self._common(info)
        params = params_of(info, draft.algo)
        if params:
            with (
                ui.expansion("Parameters", value=True).classes("w-full"),
                ui.element("div").classes("rs-fields"),
            ):
                for param in params:
                    param_field(param, draft.params.get(param.name), self._put(draft.params))
        with ui.expansion("Limits").classes("w-full"), ui.element("div").classes("rs-fields"):
            for name, text in LIMIT_FIELDS.items():
                put = self._put(draft.limits)
                help_text(
                    ui.number(
                        name.replace("_", " "), value=draft.limits.get(name), min=0,
                        on_change=lambda event, name=name, put=put: put(name, whole(event.value)),
                    ),
                    text,
                )  # fmt: skip

    def _algo(self, info: RunnerInfo) -> None:
        draft = self._draft
        if not info.algos:
            return
        summaries = {algo.name: algo.summary for algo in info.algos}
        chosen = draft.algo if draft.algo in summaries else None
        ui.select(list(summaries), value=chosen, label="Algorithm", on_change=self._choose_algo).classes(
            "w-full"
        )
        ui.label(summaries.get(draft.algo, "Select one; the fields below depend on it.")).classes("rs-quiet")
        algorithm_panel(draft.algo, next((algo.help for algo in info.algos if algo.name == draft.algo), ""))

    def _env(self, info: RunnerInfo) -> None:
        field = ui.input(
            "Environment", value=self._draft.env, autocomplete=list(info.envs)[:MAX_ENVS],
            on_change=lambda event: self._set("env", str(event.value or "").strip()),
        )  # fmt: skip
        field.classes("w-full").props('aria-label="Environment"')
        hints = [f"{len(info.envs):,} known ids" if info.envs else "any id"]
        if info.action_spaces:
            hints.append(f"action spaces: {', '.join(info.action_spaces)}")
        ui.label("; ".join(hints) + ". For example CartPole-v1, or module:Env-v0 for your own.").classes(
            "rs-quiet"
        )

    def _command(self) -> None:
        def take(event: Any) -> None:
            try:
                words = shlex.split(str(event.value or ""))
                field.props(remove="error")
            except ValueError:
                # An unclosed quotation mark.
                field.props("error")
                return
            self._set("command", words)

        field = ui.input("Command", value=shlex.join(self._draft.command), on_change=take).classes("w-full")
        help_text(field, "Split like a shell command line; run without a shell.")

    def _common(self, info: RunnerInfo) -> None:
        draft = self._draft
        put = self._put(draft.common)
        with ui.element("div").classes("rs-fields"):
            for name, text in COMMON_FIELDS.items():
                if name == "gpus" and not (info.uses_gpu or info.needs_gpu):
                    continue
                value = draft.common.get(name)
                label = name.replace("_", " ")
                if name in NUMBERS:
                    control: Any = ui.number(
                        label, value=value, precision=0, min=0,
                        on_change=lambda event, name=name: put(name, whole(event.value)),
                    )  # fmt: skip
                else:
                    control = ui.input(
                        label,
                        value=value or "",
                        on_change=lambda event, name=name: put(name, event.value or ""),
                    )
                help_text(control, text)

    def _choose_runner(self, event: Any) -> None:
        starter = STARTER_SPECS.get(event.value, {})
        self._restart(from_plain({"runner": event.value, "env": self._draft.env, **starter}))

    def _choose_algo(self, event: Any) -> None:
        self._draft.algo, self._draft.params = event.value, {}
        self._restart(self._draft)

    def _set(self, name: str, value: Any) -> None:
        setattr(self._draft, name, value)
        self._touch()

    def _put(self, into: dict[str, Any]) -> Callable[[str, Any], None]:
        def put(name: str, value: Any) -> None:
            into[name] = value
            self._touch()

        return put
