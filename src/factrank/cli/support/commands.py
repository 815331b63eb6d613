"""Commands with plain-text help: usage by metavars and options in groups, within 80 columns."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class PlainCommand(TyperCommand):
    """A command whose help lists its arguments by their metavars and its options by their `rich_help_panel`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line after the command's name."""
        return ["[OPTIONS]", *(name if one.required else f"[{name}]" for name, one in _arguments(self, ctx))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then each group of options."""
        groups: dict[str, list[Any]] = {"Arguments": [(name, one.help) for name, one in _arguments(self, ctx)]}
        for one in self.get_params(ctx):
            if one.param_type_name == "option":
                group = getattr(one, "rich_help_panel", None) or "Options"
                groups.setdefault(group, []).append(one.get_help_record(ctx))
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _arguments(command: TyperCommand, ctx: Any) -> list[tuple[str, Any]]:
    return [(str(one.metavar), one) for one in command.get_params(ctx) if one.param_type_name == "argument"]
