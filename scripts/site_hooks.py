"""Adds pages to the documentation site beyond docs/*.md. mkdocs calls these hooks (mkdocs.yml).

README.md is the first page. CHANGELOG.md, CONTRIBUTING.md and notebooks with their stored output
are pages, too. Links to files that are not pages lead to the repository.
"""

import html
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages outside docs/ and converts notebooks."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        page = posixpath.splitext(file.src_uri)[0] + ".md"
        files.append(File.generated(config, page, content=page_of(json.loads(file.content_string))))
    return files


def page_of(notebook: dict[str, Any]) -> str:
    """Converts a notebook to a page."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [shown(output) for output in cell.get("outputs", [])]
    return "\n\n".join(parts) + "\n"


def shown(output: dict[str, Any]) -> str:
    """Returns the output of a cell: a picture, else HTML, else text."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    for kind in ("image/png", "text/html", "text/plain"):
        if kind in data:
            value = "".join(data[kind])
            if kind == "image/png":
                value = value.replace("\n", "")
                return f'<img src="data:image/png;base64,{value}" alt="what the code above shows">'
            return value if kind == "text/html" else f"<pre><code>{html.escape(value)}</code></pre>"
    return ""


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Points links to their pages in the site, or to the repository."""
    at_root = page.file.src_uri in PAGES.values()
    folder = "" if at_root else posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def led(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        inside = PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        inside = re.sub(r"[.]ipynb$", ".md", inside)
        if files.get_file_from_path(inside):
            return posixpath.relpath(inside, posixpath.dirname(page.file.src_uri) or ".")
        return f"{config['repo_url']}/blob/main/{path}"

    return LINK.sub(led, markdown)
