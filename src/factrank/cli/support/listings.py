"""What can be chosen by name: the rows of `factrank ls`, from the registries."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping

from factrank.databases import SAMPLES
from factrank.plugins import OURS

Row = Mapping[str, object]
"""The cells of a row by column, as JSON has them."""


def _about(thing: object) -> str:
    """The first line of its docstring; what is built in has a module of its own, whose first line says more."""
    home = thing if inspect.isfunction(thing) else type(thing)
    module = sys.modules[home.__module__]
    ours = home is not thing and module.__name__.startswith(f"{OURS}.")
    line = ((module.__doc__ if ours else home.__doc__) or "").strip().partition("\n")[0]
    text = line.partition(": ")[2] or line if ours else line
    return text[:1].upper() + text[1:]


def generators() -> list[Row]:
    """The generators, with their arguments."""
    from factrank.databases.generators import GENERATORS, argument_type, arguments_of, is_required  # noqa: PLC0415

    def argument(parameter: inspect.Parameter) -> Row:
        default = {} if is_required(parameter) else {"default": parameter.default}
        return {"name": parameter.name, "type": argument_type(parameter.annotation).one, **default}

    return [
        {
            "name": name,
            "description": _about(generator),
            "arguments": [argument(parameter) for parameter in arguments_of(name).values()],
            "package": GENERATORS.package_of(name),
        }
        for name, generator in GENERATORS.items()
    ]


def families() -> list[Row]:
    """The families of models, with the kinds of their models."""
    from factrank.experiments import families as known  # noqa: PLC0415 - JAX takes a second to load
    from factrank.experiments import package_of_family  # noqa: PLC0415

    return [
        {
            "name": name,
            "description": _about(family),
            "models": list(family.models),
            "engines": [*(engine.name for engine in family.engines), "lanes"],
            "package": package_of_family(name),
        }
        for name, family in known().items()
    ]


def forms() -> list[Row]:
    """The closed forms, by family."""
    from factrank.experiments import SizedForm, package_of_family  # noqa: PLC0415
    from factrank.experiments import families as known  # noqa: PLC0415 - JAX takes a second to load
    from factrank.plugins import Registry  # noqa: PLC0415

    return [
        {
            "name": name,
            "family": family.name,
            "description": "" if isinstance(form, SizedForm) else _about(form),
            "package": (
                family.forms.package_of(name) if isinstance(family.forms, Registry) else package_of_family(family.name)
            ),
        }
        for family in known().values()
        for name, form in family.forms.items()
    ]


def bounds() -> list[Row]:
    """The bounds, in the order in which they are tried."""
    from factrank.tensors.bounds import BOUNDS  # noqa: PLC0415

    return [
        {
            "name": method.name,
            "of": f"{method.of} from {'below' if method.side == 'lower' else 'above'}",
            "stage": method.stage.name.lower(),
            "package": BOUNDS.package_of(name),
        }
        for name, method in sorted(BOUNDS.items(), key=lambda item: item[1].stage)
    ]


def formats() -> list[Row]:
    """The suffixes of files with facts."""
    from factrank.databases.files import FORMATS  # noqa: PLC0415

    return [
        {"name": suffix, "description": _about(file_format), "package": FORMATS.package_of(suffix)}
        for suffix, file_format in FORMATS.items()
    ]


def studies() -> list[Row]:
    """The catalogue of studies."""
    from factrank.studies import PAPERS  # noqa: PLC0415 - JAX takes a second to load

    return [
        {"name": study.name, "description": study.title, "paper": paper, "package": OURS}
        for paper, studies_of_paper in PAPERS.items()
        for study in studies_of_paper
    ]


def samples() -> list[Row]:
    """The bundled databases."""
    return [
        {
            "name": f"sample:{sample.name}",
            "description": sample.title,
            "facts": sample.n_facts,
            "source": sample.source,
            "package": OURS,
        }
        for sample in SAMPLES.values()
    ]


LISTINGS: Mapping[str, Callable[[], list[Row]]] = {
    "generators": generators,
    "families": families,
    "forms": forms,
    "bounds": bounds,
    "formats": formats,
    "studies": studies,
    "samples": samples,
}
