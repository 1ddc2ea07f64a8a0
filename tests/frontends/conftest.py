"""Front ends as a reader starts them, each with a mark that all its processes carry."""

import pytest

from tests.frontends.traces import Traces


@pytest.fixture
def traces():
    """The processes of one front end; at the end none of them may be left."""
    traces = Traces()
    try:
        yield traces
        assert traces.wait_gone() == []
    finally:
        traces.kill()
