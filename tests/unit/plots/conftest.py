"""Figures are drawn without a screen, and closed after each test."""

import matplotlib
import matplotlib.pyplot as plt
import pytest

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")
