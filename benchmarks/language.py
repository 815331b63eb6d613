"""Language models: a `torch.compile` bfloat16 loop beside ours, in one run, on whatever device there is.

    python benchmarks/language.py                    # one model of 10 M parameters, and 32 lanes of 0.4 M
    python benchmarks/language.py --small            # tiny sizes, to see that it runs
    python benchmarks/language.py --lanes 16 64

Setting: phone books of 20,000 people, 14 tokens a record; batches of 4,096 records for the large model, 1,024 for the
small ones; Adam; sampling included. The PyTorch loop trains one model of the same shape: fused attention where the
library has it (d_qk = d_vo), bfloat16 by autocast, master weights in float32. Lanes are compared with this loop run
once per model. Of our runs the steps alone are timed.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import jax
import torch
from torch.nn import functional

from factrank import LanguageShape, Sentences, Training, Trial, generated
from factrank.experiments.lanes import arithmetic, program_for
from factrank.experiments.prepared import task_of


@dataclass(frozen=True)
class Setting:
    """Sizes of a model, its facts and its batches."""

    shape: LanguageShape
    people: int
    names: int
    batch: int


LARGE = Setting(LanguageShape(384, 12, 32, 32, n_layers=6, mlp_width=1024), 20_000, 40, 4096)
MANY = Setting(LanguageShape(192, 8, 16, 16, n_layers=4), 20_000, 40, 1024)
TINY = Setting(LanguageShape(16, 2, 4, 4, n_layers=2, mlp_width=16), 50, 6, 8)


class PlainDecoder(torch.nn.Module):
    """The same decoder in PyTorch."""

    def __init__(self, shape: LanguageShape, n_tokens: int) -> None:
        super().__init__()
        self.shape = shape
        sizes = shape.part_sizes(n_tokens)
        for name, size in sizes.items():
            drawn = torch.ones(size) if name.endswith("norm") else torch.randn(size) * shape.d_model**-0.5
            self.register_parameter(name, torch.nn.Parameter(drawn))
        half = shape.d_qk // 2
        angles = torch.arange(shape.context)[:, None] * shape.rope_base ** (-torch.arange(half) / half)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        """Rotary positions."""
        first, second = x.chunk(2, dim=-1)
        cosine, sine = self.cosine[: x.shape[-2]], self.sine[: x.shape[-2]]
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1).to(x.dtype)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits after each token."""
        shape, x = self.shape, self.embedding[tokens]

        def normed(stream: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
            return functional.rms_norm(stream, (shape.d_model,), gain, 1e-6)

        for layer in range(shape.n_layers):
            at = normed(x, self.attention_norm[layer])
            q, k, v = (torch.einsum("btd,hde->bhte", at, w[layer]) for w in (self.w_q, self.w_k, self.w_v))
            mixed = functional.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
            x = x + torch.einsum("bhte,hed->btd", mixed, self.w_o[layer])
            if shape.mlp_width:
                at = normed(x, self.mlp_norm[layer])
                hidden = functional.silu(at @ self.w_gate[layer]) * (at @ self.w_up[layer])
                x = x + hidden @ self.w_down[layer]
        return normed(x, self.final_norm) @ self.embedding.T


def plain_pytorch(setting: Setting, steps: int, *, compiled: bool) -> float:
    """Milliseconds per step of one model, its batches sampled on the device."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n_tokens, length = 1 + 3 * setting.names + 10, 14
    records = torch.randint(1, n_tokens, (setting.people, length), device=device)
    module = PlainDecoder(setting.shape, n_tokens).to(device)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3, fused=device == "cuda")

    def loss_of(tokens: torch.Tensor) -> torch.Tensor:
        logits = module(tokens[:, :-1])
        return functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())

    faster = torch.compile(loss_of) if compiled else loss_of

    def run(n_steps: int) -> float:
        started = time.perf_counter()
        for _ in range(n_steps):
            tokens = records[torch.randint(setting.people, (setting.batch,), device=device)]
            with torch.autocast(device, torch.bfloat16):
                loss = faster(tokens)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - started) * 1e3 / n_steps

    run(max(3, steps // 5))
    return run(steps)


def ours(setting: Setting, lanes: int, steps: int) -> float:
    """Milliseconds per step of all lanes together."""
    sizes = {"n_people": setting.people, "n_names": setting.names, "n_last": setting.names}
    facts = Sentences(generated("phonebook", **sizes, seed=0), templates=0)
    training = Training(learning_rate=1e-3, epochs=10 * steps, batch_size=setting.batch, precision="bfloat16")
    trials = [Trial(facts, setting.shape, training, seed=seed) for seed in range(lanes)]
    task = task_of(trials[0], trials[0].source.build())
    program = program_for(trials[0], task)
    with arithmetic("bfloat16"):
        state = program.advance(program.start(trials, [task] * lanes, lanes), 0, 1)
        jax.block_until_ready(state)
        started = time.perf_counter()
        jax.block_until_ready(program.advance(state, 1, steps))
    return (time.perf_counter() - started) * 1e3 / steps


def report(name: str, setting: Setting, lanes: int, milliseconds: float, baseline: float) -> None:
    """One line: time and throughput per model, and the ratio to the loop."""
    n_tokens = 1 + 3 * setting.names + 10
    parameters, tokens = setting.shape.parameters(n_tokens), 13 * setting.batch
    each = milliseconds / lanes
    flops = 6 * parameters * tokens / each / 1e9
    print(
        f"{name:34} {parameters / 1e6:8.3f} M  {each:10.4f} ms per model-step  {tokens / each / 1e3:10.3f} M tokens/s  "
        f"{flops:8.3f} TFLOP/s  {baseline / each:7.2f}x"
    )


def main() -> None:
    """Print one line per quantity, with its ratio to the loop in PyTorch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, nargs="+", default=[32])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--eager", action="store_true", help="do not compile the loop in PyTorch")
    options = parser.parse_args()
    large, many = (TINY, TINY) if options.small else (LARGE, MANY)
    print(f"{jax.local_devices()[0].device_kind}, jax {jax.__version__}, torch {torch.__version__}")
    loop = plain_pytorch(large, options.steps, compiled=not options.eager)
    report("PyTorch, one large model", large, 1, loop, loop)
    report("ours, one large model", large, 1, ours(large, 1, options.steps), loop)
    loop = plain_pytorch(many, options.steps, compiled=not options.eager)
    report("PyTorch, one small model", many, 1, loop, loop)
    for lanes in options.lanes:
        report(f"ours, {lanes} lanes of small models", many, lanes, ours(many, lanes, options.steps), loop)


if __name__ == "__main__":
    main()
