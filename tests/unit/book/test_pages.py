"""Where the site stands, as each language's pages are told."""

import pages
import pytest


@pytest.mark.parametrize("base", ["https://a.example/book", "https://a.example/book/", ""])
def test_one_setting_gives_each_language_its_address(monkeypatch, tmp_path, base):
    (tmp_path / "_config.yml").write_text(
        f'html: {{baseurl: "{base}"}}\nsphinx: {{local_extensions: {{}}}}\n'
    )
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    site = "https://a.example/book/" if base else ""
    assert pages.address() == site
    for language in ("en", "zh"):
        expected = f"{site}{language}/" if base else ""
        assert pages.configuration(language)["html"]["baseurl"] == expected
