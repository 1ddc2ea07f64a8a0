"""Every page is valid HTML, where the Nu Html Checker is at hand; VNU_JAR says where."""

import os
from pathlib import Path

import pytest

from benchmarks import html_checker

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build the book


def test_every_page_is_valid_html(site):
    jar = os.environ.get("VNU_JAR")
    if not jar:
        pytest.skip("no checker: npm install vnu-jar, then VNU_JAR=.../vnu.jar (it needs java)")
    found = html_checker.errors(Path(jar), html_checker.every(site))
    told = [f"{e.get('url')}:{e.get('lastLine')}: {e['message']}" for e in found]
    assert not told, "\n".join(told)
