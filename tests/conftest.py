"""Settings shared by all tests."""

import gc
import os
import sys
from functools import cache
from pathlib import Path

import jaxtyping
import pytest
import typer.main
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from checked_calls import check_calls

# Nothing of factrank has been imported yet: its modules look the decorator up as they are.
jaxtyping.jaxtyped = check_calls

# Reading the signatures of all commands takes longer than most commands that the tests call.
typer.main.get_command = cache(typer.main.get_command)

# To look for doctests in it is to run it, and it compiles.
collect_ignore = ["warm_kernel.py"]
# Several files of this name, which have no examples, cannot be imported as one module.
collect_ignore_glob = ["*conftest.py"]

# Deadlines are times, and a test never asserts a time; data generation is slow under runtime type checks.
settings.register_profile(
    "same", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("new", settings.get_profile("same"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# The tests share the processors by running side by side: matrices of a few rows gain nothing from threads that wait
# for each other. The variable is for workers and commands, the limit for what this process has loaded already.
os.environ["OMP_NUM_THREADS"] = "1"
threadpool_limits(1, user_api="blas")

# Programs and kernels compiled by one process serve the others and the next run; the user's own caches are left alone.
COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
os.environ["FACTRANK_CACHE"] = str(COMPILED)
os.environ["NUMBA_CACHE_DIR"] = str(COMPILED / "numba")

# A test compiles many programs and runs each for milliseconds: XLA may compile quickly rather than well. What rounds
# differently in well compiled code is marked `optimised`; test_optimised.py runs it without these.
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
own_flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if flag not in QUICK_TO_COMPILE]
flags = own_flags if "FACTRANK_TEST_OPTIMISED" in os.environ else [*QUICK_TO_COMPILE, *own_flags]
os.environ["XLA_FLAGS"] = " ".join(flags)


# One test of minutes that begins when all others have ended keeps every process waiting.
LONG = ("test_optimised.py", "test_published_papers.py", "test_demo.py", "test_extension.py")


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: item.path.name not in LONG)
    # Where test_optimised.py runs, it runs these as users have them; a run without optimisation would add nothing.
    if any(item.path.name == "test_optimised.py" for item in items):
        marked = {item for item in items if item.get_closest_marker("optimised")}
        config.hook.pytest_deselected(items=list(marked))
        items[:] = [item for item in items if item not in marked]


def pytest_collection_finish():
    """Leave what has been imported out of garbage collection, a tenth of the time of the tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Run a command in an empty folder; gives exit code, standard output and standard error."""
    from factrank.cli import run as run_command_line

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["factrank", *map(str, arguments)])
        code = 0
        try:
            run_command_line()
        except SystemExit as exit_:
            code = exit_.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return run
