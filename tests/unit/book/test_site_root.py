"""What stands beside the two languages, with and without an address of the book."""

import xml.etree.ElementTree as ET

import pytest
import site_root

BASE = "https://example.org/ranks/"
KINDS = {"chapters/en/old.html": '<meta name="robots" content="noindex">', "book/en/index.html": ""}


@pytest.fixture
def site(tmp_path):
    for name, text in KINDS.items():
        path = tmp_path / "en" / name
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
    return tmp_path


def test_without_an_address_nothing_speaks_of_one(site):
    (site / "sitemap.xml").write_text("of an earlier build")
    site_root.around(site, "")
    assert {path.name for path in site.iterdir()} == {"en", "index.html"}
    assert "hreflang=" not in (site / "index.html").read_text("utf-8").split("</head>")[0]


def test_with_an_address_all_pages_are_listed_but_those_that_moved(site):
    site_root.around(site, BASE)
    listed = [found.text for found in ET.parse(site / "sitemap.xml").findall(".//{*}loc")]
    assert listed == [BASE, f"{BASE}en/book/en/index.html"]
    assert f"Sitemap: {BASE}sitemap.xml" in (site / "robots.txt").read_text("utf-8")
    head = (site / "index.html").read_text("utf-8").split("</head>")[0]
    assert f'hreflang="zh-CN" href="{BASE}zh/book/zh/index.html"' in head
    assert f'rel="canonical" href="{BASE}"' in head
