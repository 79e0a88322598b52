"""The shape of a command: one sentence of help, examples, options; subcommands beside arguments of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import old_spellings
from whydrop.cli.ending import printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Command(click.Command):
    """A command that takes arguments of its own, or the name of a subcommand: ``pace HOST``, ``pace status``."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.subcommands: dict[str, click.Command] = {}

    def subcommand(self, name: str, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
        """Decorate a function that becomes the subcommand of that name."""

        if not self.subcommands:
            self._complete_subcommands()

        def add(function: Callable[..., Any]) -> Command:
            made = click.command(name, cls=Command, **settings)(function)
            self.subcommands[name] = made
            return made

        return add

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments; an option of earlier versions is answered with its new spelling."""
        if args and args[0] in self.subcommands:
            name, *rest = args
            return self.subcommands[name].make_context(f"{info_name} {name}", rest, parent, **extra)
        given = list(args)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as reason:
            above = parent.command_path.split()[1:] if parent is not None else []
            old_spellings.raise_if_old(" ".join([*above, info_name or ""]), given, reason)
            raise
        if not context.resilient_parsing:
            self._refuse_late_subcommand(context)
        return context

    def _refuse_late_subcommand(self, context: click.Context) -> None:
        """``pace --json status`` is not about a host of that name."""
        for parameter in self.params:
            value = context.params.get(parameter.name or "")
            first = value[0] if isinstance(value, tuple) and value else value
            if isinstance(parameter, click.Argument) and str(first) in self.subcommands:
                context.fail(f"Write the subcommand first: {context.command_path} {printable(str(first))}.")

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage, the sentence, the examples, and then the options."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)
        if self.subcommands:
            with formatter.section("Subcommands"):
                formatter.write_dl([(name, one.get_short_help_str(100)) for name, one in self.subcommands.items()])

    def _complete_subcommands(self) -> None:
        """Where the first argument is completed, offer the subcommands too."""
        first = next(one for one in self.params if isinstance(one, click.Argument))
        own = first.shell_complete

        def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
            from click.shell_completion import CompletionItem

            items = [
                CompletionItem(name, help=one.get_short_help_str())
                for name, one in self.subcommands.items()
                if name.startswith(incomplete)
            ]
            return items + own(ctx, incomplete)

        first.shell_complete = complete  # type: ignore[method-assign]


class Group(click.Group):
    """A group of commands of the shape of :class:`Command`."""

    command_class = Command

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage, the sentence, the examples, and then options and subcommands."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)
