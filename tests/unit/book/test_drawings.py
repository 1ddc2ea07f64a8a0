"""Pictures within a page, and within a notebook that is downloaded."""

import base64
import re

import draw
from bookext import drawings


def test_a_page_has_the_drawing_itself_on_its_own_ground():
    page = drawings.drawing("en/one_step.svg", 'two "replicas"')
    assert page.startswith("<svg") and "backdrop" not in page
    assert 'role="img"' in page and 'aria-label="two &quot;replicas&quot;"' in page
    assert "var(--p-rank-1, #e0812f)" in page and not re.search(r"(?<!, )#[0-9a-f]{6}", page)


def test_the_file_has_a_ground_to_be_read_on_a_dark_one():
    for name in draw.names():
        assert 'class="backdrop"' in drawings.picture(f"en/{name}.svg").read_text("utf-8")


def test_a_notebook_holds_its_pictures():
    source = "Before\n\n![two <replicas>](../../book/pictures/zh/one_step.svg)\n\nafter"
    held = drawings.with_pictures(source)
    found = re.search(
        r'<img alt="two &lt;replicas&gt;" src="data:image/svg\+xml;base64,([^"]+)">', held
    )
    assert found and held.startswith("Before\n\n<img") and held.endswith("\n\nafter")
    assert base64.b64decode(found[1]) == drawings.picture("zh/one_step.svg").read_bytes()


def test_other_images_and_links_stay():
    source = "![a](other.png) [b](../../book/pictures/en/one_step.svg)"
    assert drawings.with_pictures(source) == source
