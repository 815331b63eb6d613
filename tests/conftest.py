"""Settings shared by all tests."""

from hypothesis import HealthCheck, settings

# Deadlines are times, and a test never asserts a time; data generation is slow under runtime type checks.
settings.register_profile("factrank", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("factrank")
