"""What a page may ask for: the options of every kind of job, validated before a job starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from factrank.databases import SAMPLES
from factrank.databases.files import FORMATS
from factrank.errors import InputError
from factrank.foreign_text import quoted

LONGEST_FILE_NAME = 80
UPLOAD = "upload"
"""Folder of the uploaded file in the folder of a job, so that no result has the same path, whatever the file's name."""


class JobOptions(BaseModel):
    """Options of a job; unknown names are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TableOptions(JobOptions):
    """How a table is read."""

    layout: Literal["auto", "wide"] = "auto"
    multi: bool = False
    header: bool = True


class MeasureOptions(JobOptions):
    """Options of `measure`."""

    budget: float = Field(5.0, ge=0, le=120)


class ConstructOptions(JobOptions):
    """Options of `construct`."""

    minimise: Literal["parameters", "heads", "d_model", "bits"] = "parameters"
    precision: Literal["float64", "float32", "bfloat16"] = "float32"
    budget: float = Field(5.0, ge=0, le=120)


class TrainOptions(JobOptions):
    """Sizes of a layer, and how it is trained."""

    d_model: int = Field(ge=1, le=512)
    n_heads: int = Field(ge=1, le=64)
    d_qk: int = Field(ge=1, le=512)
    d_vo: int = Field(ge=1, le=512)
    epochs: int = Field(2000, ge=1, le=50_000)
    learning_rate: float = Field(0.01, gt=0, le=1)
    weight_decay: float = Field(0.0, ge=0, le=1)
    seed: int = Field(0, ge=0, lt=2**31)
    tau: float = Field(0.95, gt=0, lt=1)


class PlanOptions(JobOptions):
    """Options of `plan`."""

    recall: float = Field(0.95, gt=0, le=1)


OPTIONS: Mapping[str, type[JobOptions]] = {
    "read": TableOptions,
    "measure": MeasureOptions,
    "construct": ConstructOptions,
    "train": TrainOptions,
    "plan": PlanOptions,
}
"""The options of each kind of job."""

AnyOptions = TypeVar("AnyOptions", bound=JobOptions)


def checked(kind: type[AnyOptions], plain: Any) -> AnyOptions:
    """Validate options.

    Raises:
        InputError: With the name of the first wrong option, and what was expected.
    """
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the options"
        raise InputError(f"{where}: {first['msg']}") from None


def sample_named(name: Any) -> str:
    """Return the name of a bundled table, or raise an `InputError`."""
    if not isinstance(name, str) or name not in SAMPLES:
        raise InputError(f"no sample {quoted(name)}; the samples are {', '.join(SAMPLES)}")
    return name


def file_name(given: str) -> str:
    r"""Return a safe name for an uploaded file, with its known suffix; it names no folder, option or hidden file.

    Raises:
        InputError: If the suffix is not that of a table.

    >>> file_name("../../Städte 2.CSV"), file_name("<b>.tsv.gz"), file_name("-x.csv")
    ('Städte 2.csv', '_b_.tsv.gz', 'x.csv')
    """
    last = re.split(r"[/\\]", given)[-1]
    suffix = max((one for one in FORMATS if last.lower().endswith(one)), key=len, default=None)
    if suffix is None:
        raise InputError(f"{quoted(last)}: unknown file format; the known suffixes are {' '.join(FORMATS)}")
    stem = re.sub(r"[^\w .-]", "_", last[: -len(suffix)]).lstrip(" .-").rstrip(" .")
    stem = stem[:LONGEST_FILE_NAME].encode()[:200].decode(errors="ignore")
    return f"{stem or 'table'}{suffix}"
