"""A cluster for the tests of a module; where there can be none they are skipped, and say why."""

import pytest

from rankbook.testbed.slurm import Cluster, why_not


@pytest.fixture(scope="session")
def possible():
    """For tests that start a cluster themselves."""
    if reason := why_not():
        pytest.skip(f"no cluster on this machine: {reason}")


@pytest.fixture(scope="module")
def cluster(possible):
    """Two nodes with Slurm, gone after the module's last test."""
    with Cluster() as cluster:
        yield cluster
