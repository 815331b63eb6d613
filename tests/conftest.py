"""Settings shared by all tests."""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

# Deadlines are times, and a test never asserts a time; data generation is slow under runtime type checks.
settings.register_profile(
    "same", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("new", settings.get_profile("same"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Programs compiled by one test run serve the next, and the user's own cache is left alone.
os.environ["FACTRANK_CACHE"] = str(Path(__file__).parents[1] / ".pytest_cache" / "compiled")
