"""The factual recall task: the authors' loop beside lanes, in one run, on whatever device there is.

    python benchmarks/recall_task.py                       # the default number of lanes
    python benchmarks/recall_task.py --lanes 16 64         # these

Setting: S = R = 128 subjects and relations, D = 8 answers each, T = 32 tokens; d_model 64, 8 heads of size 8, an MLP of
width 128, frozen embeddings, Adam, batches of 1,024 new sequences. The authors' loop (Nichani, Lee and Bietti 2025,
rewritten plainly in PyTorch): one model; every position of every sequence is embedded and projected to keys and values
of all heads; the last one attends. Of our runs the steps alone are timed, with their sampling: checks come on top, as
often as one asks for them. `--small` is S = R = 16, d_model 16, width 32.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import jax
import torch
from torch.nn import functional

from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape
from lanes import Stopwatch

BATCH = 1024


@dataclass(frozen=True)
class Setting:
    """The sizes of a task and of a model."""

    subjects: int
    answers: int
    shape: FactualRecallShape


FULL = Setting(128, 8, FactualRecallShape(d_model=64, n_heads=8, d_qk=8, d_vo=8, mlp_width=128))
SMALL = Setting(16, 8, FactualRecallShape(d_model=16, n_heads=4, d_qk=4, d_vo=4, mlp_width=32))


class PlainModel(torch.nn.Module):
    """One layer of attention from the last position and an MLP."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        shape, n = setting.shape, setting.subjects
        d, heads, size, width = shape.d_model, shape.n_heads, shape.d_qk, shape.mlp_width

        def normal(*sizes: int, fan_in: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(*sizes) * fan_in**-0.5)

        self.register_buffer("embedding", torch.randn(4 * n + 1, d) * d**-0.5)
        self.register_buffer("unembedding", torch.randn(d, n * setting.answers) * d**-0.5)
        self.w_q, self.w_k, self.w_v = (normal(heads, d, size, fan_in=size) for _ in range(3))
        self.w_o = normal(heads * size, d, fan_in=d)
        self.first, self.second = torch.nn.Linear(d, width), torch.nn.Linear(width, d, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits after each sequence."""
        x = self.embedding[tokens]
        keys, values = (torch.einsum("btd,hde->bhte", x, w) for w in (self.w_k, self.w_v))
        query = torch.einsum("bd,hde->bhe", x[:, -1], self.w_q)
        scores = torch.einsum("bhe,bhte->bht", query, keys) / self.w_q.shape[-1] ** 0.5
        pooled = torch.einsum("bht,bhte->bhe", scores.softmax(-1), values).flatten(1)
        z = pooled @ self.w_o
        return (z + self.second(torch.relu(self.first(z)))) @ self.unembedding


def plain_pytorch(setting: Setting, steps: int) -> float:
    """Milliseconds per step of one model, its batches sampled on the device."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n, length, answers = setting.subjects, setting.shape.length, setting.answers
    module = PlainModel(setting).to(device)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    facts = torch.randint(answers, (n, n), device=device) + torch.arange(n, device=device) * answers

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        subjects, relations = torch.randint(n, (2, BATCH, 1), device=device)
        tokens = torch.randint(2 * n, 4 * n, (BATCH, length), device=device)
        places = torch.rand(BATCH, length - 1, device=device).argsort(1)[:, :2]  # two different ones
        tokens.scatter_(1, places, torch.cat([subjects, n + relations], dim=1))
        tokens[:, -1] = 4 * n
        return tokens, facts[subjects[:, 0], relations[:, 0]]

    def run(n_steps: int) -> float:
        start = time.perf_counter()
        for _ in range(n_steps):
            tokens, wanted = batch()
            optimiser.zero_grad()
            loss = functional.cross_entropy(module(tokens), wanted)
            loss.backward()
            optimiser.step()
        loss.item()  # waits for the device
        return time.perf_counter() - start

    run(5)
    return min(run(steps) for _ in range(2)) / steps * 1e3


def lanes(setting: Setting, n: int, steps: int, precision: str) -> float:
    """Milliseconds per step and model, with the sampling, without compilation and evaluation."""
    size = {"n_keys": setting.subjects, "n_queries": setting.subjects, "answers_per_query": setting.answers}
    facts = generated("answer-sets", **size, seed=0)
    training = Training(epochs=steps, batch_size=BATCH, engine="lanes", precision=precision)
    watch = Stopwatch()
    train_many([Trial(facts, setting.shape, training, seed=seed) for seed in range(n)], meter=watch)
    # Chunks grow while they are short; the last ones are the long ones.
    (start, before), (end, after) = watch.points[-3], watch.points[-1]
    return (end - start) / (after - before) * 1e3


def compare(setting: Setting, widths: list[int]) -> None:
    device = jax.local_devices()[0]
    on_gpu = device.platform != "cpu"
    size = f"S = R = {setting.subjects}, d_model {setting.shape.d_model}"
    print(f"{size}, batch {BATCH} on {device.device_kind}; milliseconds per model-step, ratio to the authors' loop")
    baseline = plain_pytorch(setting, 200 if on_gpu else 20)
    print(f"  authors' loop, one model       {baseline:9.4f}        1x", flush=True)
    for n in widths:
        for precision in ("float32", "tf32", "bfloat16") if on_gpu else ("float32",):
            ours = lanes(setting, n, max(60, 100_000 // n) if on_gpu else max(12, 200 // n), precision)
            print(f"  {n:>5} lanes, {precision:<10}       {ours:9.4f} {baseline / ours:8,.1f}x", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lanes", type=int, nargs="+")
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    gpu = jax.local_devices()[0].platform != "cpu"
    compare(SMALL if arguments.small else FULL, arguments.lanes or ([1, 64, 128] if gpu else [1, 4]))
