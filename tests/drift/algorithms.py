"""docs/reference/algorithms.md, from the help texts of the runners."""

from __future__ import annotations

from runspine.runners.help import HelpText, help_texts

RUNNERS = {
    "builtin": "Runspine's own algorithms: [how to train with them](../howto/builtin.md).",
    "sb3": "Stable-Baselines3: [how to train with it](../howto/builtin.md#stable-baselines3).",
    "cleanrl": "Scripts of a CleanRL checkout, by family: [how to train with them](../howto/cleanrl.md).",
    "corl": "Offline algorithms, ours and those of CORL: [how to train with them](../howto/offline.md).",
    "spade_bdi": "BDI agents: [how to train them](../howto/bdi.md).",
}


def algorithms_doc() -> str:
    lines = [
        "# Algorithms",
        "",
        "What each algorithm is for, its important parameters, settings by env family and pitfalls,",
        "generated from `runspine/runners/help` by `make proto`. `runspine runners NAME --algo ALGO` and the",
        "form of new runs show these texts. Numbers of steps are orders of magnitude for a settled curve,",
        "not promises; the built-in algorithms are measured in [benchmarks](../benchmarks.md#learning).",
    ]
    for runner, about in RUNNERS.items():
        lines += ["", f"## {runner}", "", about]
        for text in help_texts(runner):
            lines += ["", f"### {runner}: {text.name}", "", *_scripts(text), text.text.rstrip()]
    return "\n".join(lines) + "\n"


def _scripts(text: HelpText) -> list[str]:
    if text.patterns == (text.name,):
        return []
    return [f"For {', '.join(f'`{pattern}`' for pattern in text.patterns)}.", ""]
