"""One page of HTML that needs nothing else: chapters of sentences, tables and pictures.

Pictures are embedded, and written as PNG beside the page as well. There is no script, no font and
no address: the page reads the same on a telephone, on paper and in ten years.
"""

import base64
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from files import write_atomically
from matplotlib.figure import Figure

DOTS_PER_INCH = 150

STYLE = """
body { margin: 0 auto; max-width: 52rem; padding: 1rem; background: #fff; color: #111;
       font: 1.05rem/1.5 system-ui, sans-serif; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #999; }
a { color: #00447c; }
figure { margin: 1.2rem 0; break-inside: avoid; }
img { display: block; width: 100%; max-width: 48rem; height: auto; }
figcaption, caption { color: #444; font-size: 0.92rem; text-align: left; }
caption { padding-bottom: 0.4rem; }
.wide { overflow-x: auto; margin: 1.2rem 0; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid #ccc; text-align: right; }
td { white-space: nowrap; }
th { vertical-align: bottom; }
th:first-child { text-align: left; }
thead th { border-bottom: 2px solid #111; }
tbody th { font-weight: normal; }
@media print { body { max-width: none; font-size: 10pt; } nav { display: none; }
               .wide { overflow: visible; } table { font-size: 8pt; } td { white-space: normal; } }
"""


@dataclass(frozen=True)
class Table:
    """Text in columns; the first cell of a row says what the row is about.

    Attributes:
        caption: what is seen.
        header: (C,) names of the columns, with units.
        rows: of C cells each.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def html(self) -> str:
        """The table; it scrolls by itself where the screen is narrow."""
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in self.header)
        body = "\n".join(
            f'<tr><th scope="row">{escape(first)}</th>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
            + "</tr>"
            for first, *rest in self.rows
        )
        return (
            f'<div class="wide"><table><caption>{escape(self.caption)}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
        )


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes:
        name: of its file, without the ending.
        png: its content.
        alt: what it shows, for those who do not see it.
        caption: how to read it.
    """

    name: str
    png: bytes
    alt: str
    caption: str

    def html(self) -> str:
        """The picture, embedded."""
        data = base64.b64encode(self.png).decode("ascii")
        return (
            f'<figure><img src="data:image/png;base64,{data}" alt="{escape(self.alt)}">\n'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


def drawn(name: str, figure: Figure, alt: str, caption: str) -> Picture:
    """The picture of a figure; the same figure gives the same bytes."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return Picture(name, content.getvalue(), alt, caption)


@dataclass(frozen=True)
class Chapter:
    """A part of the page under a title: sentences, tables and pictures in their order."""

    title: str
    parts: tuple[str | Table | Picture, ...]

    @property
    def name(self) -> str:
        """What links inside of the page call it.

        >>> Chapter("Tuned against untuned", ()).name
        'tuned-against-untuned'
        """
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    @property
    def pictures(self) -> list[Picture]:
        """Its pictures."""
        return [part for part in self.parts if isinstance(part, Picture)]

    def html(self) -> str:
        """The chapter."""
        inside = "\n".join(
            f"<p>{escape(part)}</p>" if isinstance(part, str) else part.html()
            for part in self.parts
        )
        return f'<section id="{self.name}">\n<h2>{escape(self.title)}</h2>\n{inside}\n</section>'


def html(title: str, about: Iterable[str], chapters: Iterable[Chapter]) -> str:
    """The whole page: a title, a few sentences on what it is about, and the chapters."""
    chapters = tuple(chapters)
    links = "\n".join(
        f'<li><a href="#{chapter.name}">{escape(chapter.title)}</a></li>' for chapter in chapters
    )
    first = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in about)
    return "\n".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>\n{first}",
            f'<nav aria-label="Contents"><ol>\n{links}\n</ol></nav>',
            *(chapter.html() for chapter in chapters),
            "</body>\n</html>\n",
        )
    )


def write(folder: Path, title: str, about: Iterable[str], chapters: Iterable[Chapter]) -> Path:
    """Writes index.html and the pictures into a folder, which is made; returns the page's path."""
    chapters = tuple(chapters)
    for chapter in chapters:
        for picture in chapter.pictures:
            write_atomically(folder / f"{picture.name}.png", picture.png)
    path = folder / "index.html"
    write_atomically(path, html(title, about, chapters))
    return path
