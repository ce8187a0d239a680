"""Links of HDF5 groups, as `Group.get(name, getlink=True)` returns them."""

from __future__ import annotations

__all__ = ["ExternalLink", "HardLink", "SoftLink", "UserLink", "link_of"]


class HardLink:
    """A link to an object in the same file."""

    def __repr__(self) -> str:
        return "<HardLink>"


class SoftLink:
    """A link to a path in the same file. The path need not exist."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f'<SoftLink to "{self.path}">'


class ExternalLink:
    """A link to a path in another file. The file and the path need not exist."""

    def __init__(self, filename: str, path: str) -> None:
        self.filename, self.path = filename, path

    def __repr__(self) -> str:
        return f'<ExternalLink to "{self.path}" in file "{self.filename}">'


class UserLink:
    """A link of a kind that only its writer understands. It cannot be followed."""

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"<UserLink of kind {self.kind}>"


def link_of(link: tuple[str, int, str, str]) -> HardLink | SoftLink | ExternalLink | UserLink:
    """Return the link that `_native` describes."""
    kind, number, path, filename = link
    if kind == "soft":
        return SoftLink(path)
    if kind == "external":
        return ExternalLink(filename, path)
    return HardLink() if kind == "hard" else UserLink(number)
