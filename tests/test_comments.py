"""Comments and docstrings are sentences: they are read by people who were not there.

No test can tell whether a sentence says why. This one looks at the form: a comment that has lines of its own
is a heading (``# ---- reading``) or begins and ends as sentences do, and so does the first paragraph of a
docstring. Words behind a field of a table, on its line, may be a label.
"""

import re
from pathlib import Path

from tests.every_case import every

PACKAGE = Path(__file__).parents[1] / "numbatape"
FOLDERS = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")})
COMMENT = re.compile(r"^( *)#:? ?(.*(?:\n\1#.*)*)", re.M)
DOCSTRING = re.compile(r'(?:\A|:\n)( *)"""(.+?)(?:"""|\n *\n)', re.S)
NO_PROSE = re.compile(r"---- \S|cells: |[!{]|(noqa|type|ruff|fmt)\b")
# A sentence begins with a capital letter, or with a name or a formula: `x`, x[i], f(x), x.y, x = 1, d/dx.
BEGINS = re.compile(r"[A-Z0-9`(\"]|[\w.]+[`_(\[*/^]|\w+ [-+*/%=]")
ENDS = re.compile(r"[.:?!…][`\")]*$")


def paragraphs(text: str):
    """Yield (place in the text, words) of each comment and of the first paragraph of each docstring."""
    for pattern in (COMMENT, DOCSTRING):
        for found in pattern.finditer(text):
            yield found.start(2), re.sub(r"\n *#? ?", " ", found[2]).strip()


@every("folder", FOLDERS)
def test_comments_and_docstrings_are_sentences(folder):
    place = PACKAGE / folder
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        text = path.read_text()
        for start, words in paragraphs(text):
            where = f"{path.relative_to(PACKAGE)}:{text.count(chr(10), 0, start) + 1}: {words}"
            assert NO_PROSE.match(words) or BEGINS.match(words), f"begins within a sentence: {where}"
            assert NO_PROSE.match(words) or ENDS.search(words), f"ends without a full stop: {where}"
