"""The multi-head memoriser: plain PyTorch loops beside lanes, in one run, on whatever device there is.

    python benchmarks/multihead.py                                          # the default numbers of lanes
    python benchmarks/multihead.py --lanes 1 8 32 64 --precision tf32       # these
    python benchmarks/multihead.py --shared                                 # one context for all examples
    python benchmarks/multihead.py --mixed                                  # runs of different sizes in one process

The setting of Mahdavi, Liao and Thrampoulidis 2024: d = 64, contexts of n = 32 tokens, H = 20 heads of size 64 with
values of size 1, 100 classes, 10,000 examples, batches of 256, Adam, no validation. One step of one model in PyTorch
with its defaults (float32 products are not rounded to tf32):

    authors' loop     a DataLoader draws batches on the host, each goes to the device; all n + 1 positions are embedded,
                      projected to queries, keys and values of all heads, attend and are decoded; the first is read
    on the device     the same model, all examples on the device, a batch is gathered there
    query row         likewise, and the query alone attends and is decoded

Of our runs the steps alone are timed, with the making of their examples, which are not stored: checks come on top, as
often as one asks for them.

`--mixed` trains what a study over sizes has, few of each: 20 heads on contexts of 20 to 60 tokens of their own, and 30
heads of size 35 to 64 on one context for all, 39 models of 12 shapes in one call. Its time is that of the whole call
with compiled programs, weights drawn, and results measured and collected; the loop beside it is that of one shape, H =
20 and n = 32 with own contexts.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator

import jax
import torch
from torch.nn import functional

from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.memoriser.examples.examples import RandomExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from lanes import Stopwatch

SHAPE = MemoriserShape(n_heads=20, d_model=64, d_qk=64, d_vo=1)
EXAMPLES, TOKENS, DIMENSIONS, CLASSES, BATCH = 10_000, 32, 64, 100, 256

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


class PlainMemoriser(torch.nn.Module):
    """One layer of attention to the context, from all positions or from the query alone."""

    def __init__(self, *, query_alone: bool) -> None:
        super().__init__()
        heads, d = SHAPE.n_heads, SHAPE.d_model
        self.query_alone = query_alone
        self.embedding, self.decoder = torch.nn.Linear(DIMENSIONS, d), torch.nn.Linear(d, CLASSES)
        sizes = (heads, d, SHAPE.d_qk), (heads, d, SHAPE.d_qk), (heads, d, SHAPE.d_vo), (heads * SHAPE.d_vo, d)
        self.w_q, self.w_k, self.w_v, self.w_o = (torch.nn.Parameter(torch.randn(size) * d**-0.5) for size in sizes)
        angles = torch.arange(TOKENS + 1)[:, None] * 10_000 ** (-torch.arange(0, d, 2) / d)
        positions = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
        mask = torch.zeros(TOKENS + 1, TOKENS + 1)
        mask[:, 0] = -math.inf
        self.register_buffer("positions", positions)
        self.register_buffer("mask", mask)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits of examples [batch, 1 + n, d], the query first."""
        x = (self.embedding(tokens) + self.positions)[:, None]
        asking, context, mask = x, x, self.mask
        if self.query_alone:
            asking, context, mask = x[:, :, :1], x[:, :, 1:], 0.0
        scores = (asking @ self.w_q) @ (context @ self.w_k).transpose(2, 3) / SHAPE.score_divisor + mask
        pooled = scores.softmax(-1) @ (context @ self.w_v)
        return self.decoder(pooled.transpose(1, 2).flatten(2) @ self.w_o)[:, 0]


def on_host(tokens: torch.Tensor, labels: torch.Tensor) -> Batches:
    """Batches drawn on the host, pass after pass."""
    examples = torch.utils.data.TensorDataset(tokens, labels)
    while True:
        yield from torch.utils.data.DataLoader(examples, batch_size=BATCH, shuffle=True)


def on_device(tokens: torch.Tensor, labels: torch.Tensor) -> Batches:
    """Batches gathered where the examples are."""
    while True:
        order = torch.randperm(EXAMPLES, device=tokens.device)
        for chosen in order.split(BATCH):
            yield tokens[chosen], labels[chosen]


def plain_pytorch(device: str, steps: int, draw: Callable[..., Batches], *, query_alone: bool, shared: bool) -> float:
    """Milliseconds per step of one model."""
    torch.manual_seed(0)
    queries, labels = torch.rand(EXAMPLES, 1, DIMENSIONS), torch.randint(CLASSES, (EXAMPLES,))
    contexts = torch.rand(1 if shared else EXAMPLES, TOKENS, DIMENSIONS).expand(EXAMPLES, -1, -1)
    tokens = torch.cat([queries, contexts], dim=1)
    batches = draw(tokens, labels) if draw is on_host else draw(tokens.to(device), labels.to(device))
    module = PlainMemoriser(query_alone=query_alone).to(device)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)

    def run(n_steps: int) -> float:
        start = time.perf_counter()
        for _ in range(n_steps):
            vectors, wanted = next(batches)
            loss = functional.cross_entropy(module(vectors.to(device)), wanted.to(device))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        loss.item()  # waits for the device
        return time.perf_counter() - start

    run(max(2, steps // 10))
    return min(run(steps) for _ in range(2)) / steps * 1e3


def lanes(n: int, steps: int, precision: str, *, shared: bool) -> float:
    """Milliseconds per step and model, with the making of the examples, without compilation and evaluation."""
    training = Training(learning_rate=1e-3, epochs=steps, batch_size=BATCH, precision=precision)
    examples = [
        RandomExamples(EXAMPLES, TOKENS, DIMENSIONS, CLASSES, 1 if shared else None, seed=seed) for seed in range(n)
    ]
    watch = Stopwatch()
    train_many([Trial(one, SHAPE, training, seed=seed) for seed, one in enumerate(examples)], meter=watch)
    # Chunks grow while they are short; the last ones are the long ones.
    (start, before), (end, after) = watch.points[-3], watch.points[-1]
    return (end - start) / (after - before) * 1e3


def mixed_trials(steps: int, precision: str) -> list[Trial]:
    """Few models of each of many shapes."""
    training = Training(learning_rate=1e-3, epochs=steps, batch_size=BATCH, schedule="cosine", precision=precision)
    own = [(20, 64, tokens, None, seed) for tokens in (20, 30, 40, 50, 60) for seed in range(5)]
    shared = [(30, d_qk, TOKENS, 1, seed) for d_qk in (35, 40, 45, 50, 55, 60, 64) for seed in range(2)]
    return [
        Trial(
            RandomExamples(EXAMPLES, tokens, DIMENSIONS, CLASSES, n_contexts, seed=seed),
            MemoriserShape(n_heads, d_model=64, d_qk=d_qk),
            training,
            seed=seed,
        )
        for n_heads, d_qk, tokens, n_contexts, seed in (*own, *shared)
    ]


def mixed(steps: int, precision: str) -> float:
    """Milliseconds per step and model of the whole call, without compilation."""
    train_many(mixed_trials(2, precision))
    trials = mixed_trials(steps, precision)
    start = time.perf_counter()
    train_many(trials)
    return (time.perf_counter() - start) / (steps * len(trials)) * 1e3


def compare_mixed(precisions: list[str]) -> None:
    device = jax.local_devices()[0]
    on_gpu = device.platform != "cpu"
    print(f"{len(mixed_trials(1, 'float32'))} models of different sizes in one process, on {device.device_kind}")
    loop = plain_pytorch("cuda" if on_gpu else "cpu", 200 if on_gpu else 6, on_host, query_alone=False, shared=False)
    print(f"milliseconds per model-step and how many times faster than{'':6}", f"{'authors loop':>16}")
    _print_row("PyTorch, authors' loop", loop, {"": loop})
    for precision in precisions:
        _print_row(f"mixed sizes, {precision}", mixed(10_000 if on_gpu else 4, precision), {"": loop})


def compare(widths: list[int], precisions: list[str], *, shared: bool) -> None:
    device = jax.local_devices()[0]
    on_gpu = device.platform != "cpu"
    kind, steps = "cuda" if on_gpu else "cpu", 200 if on_gpu else 6
    contexts = "one context for all" if shared else "a context for each"
    print(f"H = {SHAPE.n_heads}, n = {TOKENS}, d = {DIMENSIONS}, {contexts}, batch {BATCH} on {device.device_kind}")
    loops = {
        "authors' loop": plain_pytorch(kind, steps, on_host, query_alone=False, shared=shared),
        "on the device": plain_pytorch(kind, steps, on_device, query_alone=False, shared=shared),
        "query row": plain_pytorch(kind, steps, on_device, query_alone=True, shared=shared),
    }
    print(f"milliseconds per model-step and how many times faster than{'':6}", *(f"{name:>16}" for name in loops))
    for name, milliseconds in loops.items():
        _print_row(f"PyTorch, {name}", milliseconds, loops)
    for n in widths:
        for precision in precisions:
            ours = lanes(n, max(2000, 40_000 // n) if on_gpu else max(10, 100 // n), precision, shared=shared)
            _print_row(f"{n:>5} lanes, {precision}", ours, loops)


def _print_row(what: str, milliseconds: float, loops: dict[str, float]) -> None:
    ratios = " ".join(f"{other / milliseconds:15,.1f}x" for other in loops.values())
    print(f"  {what:<32} {milliseconds:11.4f}                   {ratios}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lanes", type=int, nargs="+")
    parser.add_argument("--precision", nargs="+", choices=("float32", "tf32", "bfloat16"))
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--mixed", action="store_true")
    arguments = parser.parse_args()
    if arguments.device is not None:
        jax.config.update("jax_platforms", arguments.device)
    gpu = jax.local_devices()[0].platform != "cpu"
    numbers = arguments.lanes or ([1, 8, 32, 64] if gpu else [1, 2])
    formats = arguments.precision or (["float32", "tf32"] if gpu else ["float32"])
    if arguments.mixed:
        compare_mixed(formats)
    else:
        compare(numbers, formats, shared=arguments.shared)
