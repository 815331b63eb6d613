"""A generator: the hour after so many hours."""

import factrank


@factrank.generator
def clock(hours: int, n_steps: int = 3) -> list[tuple[int, str, int]]:
    """The hands of a clock: which hour it is n hours later."""
    return [(hour, f"+{step}", (hour + step) % hours) for hour in range(hours) for step in range(n_steps)]
