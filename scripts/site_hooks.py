"""What the site of the documentation needs beside docs/: called by mkdocs (mkdocs.yml).

README.md is the first page; CHANGELOG.md and CONTRIBUTING.md are pages, too. Links to files that are
not pages lead to the repository.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that lie beside docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Leads links to where their files are in the site, or to the repository."""
    at_root = page.file.src_uri in PAGES.values()
    folder = "" if at_root else posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def led(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        inside = PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if files.get_file_from_path(inside):
            return posixpath.relpath(inside, posixpath.dirname(page.file.src_uri) or ".")
        return f"{config['repo_url']}/blob/main/{path}"

    return LINK.sub(led, markdown)
