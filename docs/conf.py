"""These pages as a site with search: Sphinx, and MyST, which reads Markdown as GitHub does.

    pip install ".[docs]"
    python -m sphinx -W --keep-going docs site

writes site/index.html. With ``-W`` a warning is an error: a link that leads nowhere, or a page that the
navigation below lacks. The network is not needed.
"""

project = "numbatape"
extensions = ["myst_parser"]
myst_heading_anchors = 4  # links to headings, as on GitHub
html_theme = "furo"
html_title = "numbatape"
html_copy_source = False
html_show_sphinx = False
html_use_index = False  # of Python objects; there are none

# The order in which the site offers the pages, for a reader who comes for the first time.
NAVIGATION = {
    "Start": ["tutorial", "gallery", "from-autograd", "from-jax", "from-stan"],
    "Derivatives": ["second-order", "sparse", "implicit", "vmap", "batches", "complex", "conventions"],
    "Models": ["parameters", "optimisers", "samplers", "statistics", "sampling", "batch"],
    "Programs": ["control-flow", "mutation", "sizes-and-branches", "sub-tapes"],
    "Libraries": ["linear-algebra", "scipy", "rules"],
    "Speed": ["costs", "notebooks", "benchmarks", "kernels"],
    "Reference": ["interface", "coverage", "limitations"],
    "Inside": [
        *("how-it-works", "tracing", "derived-tapes", "steady-calls", "compiler", "decisions"),
        "adding-an-op",
    ],
}


def add_navigation(app, page, source):
    """Append the navigation to the first page, where Sphinx looks for it."""
    if page == "index":
        for caption, pages in NAVIGATION.items():
            listed = "\n".join(pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def setup(app):
    app.connect("source-read", add_navigation)
