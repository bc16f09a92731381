"""The gallery: videos of trained policies, and the learning curves of all shipped specs."""

from __future__ import annotations

from scripts.docs_site.curves import curves_of
from scripts.docs_site.page import ROOT, Page, raw_html
from scripts.docs_site.places import GALLERY, Places


def gallery_page(places: Places) -> Page:
    """Returns the page; `python -m scripts.gallery` records its videos."""
    page = Page(
        "gallery",
        "# Gallery\n\nPolicies of shipped specs, and the curves of all that have been measured. `python -m "
        "scripts.gallery` trains and records the policies; [results](results.md) has the numbers.\n\n",
    )
    figures = []
    for video in sorted(GALLERY.glob("*.webp")):
        folder, _, spec = video.stem.partition("-")
        address = f"images/{video.name}"
        places.images[address] = video
        label = f"{folder}/{spec}.yaml"
        figures.append(
            f"<figure><img src='{address}' alt='A policy of {label}' loading='lazy'><figcaption>"
            f"<a href='specs/{folder}.html#{spec}yaml'>{label}</a></figcaption></figure>"
        )
    page.markdown += "## Policies\n\n## Learning curves\n\n"
    page.markdown += "Thin lines are seeds, thick lines are their means, and the dashed line is the gate.\n"
    page.extra["Policies"] = raw_html(f"<div class='videos'>{''.join(figures)}</div>")
    specs = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "configs").glob("*/*.yaml"))
    pictures = "".join(picture for spec in specs for picture in curves_of(spec))
    page.extra["Learning curves"] = raw_html(f"<div class='curves'>{pictures}</div>")
    return page
