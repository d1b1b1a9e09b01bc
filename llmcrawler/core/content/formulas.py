"""Reads formulas as TeX: from MathML and what renderers leave beside it, and from images with their TeX as a text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from llmcrawler.core.content.markup import VOID, Token, attributes, plain

_TEX_IMAGE: Final = re.compile(
    r' class="(?:[^"]* )?(?:tex|latex|math|mwe-math[\w-]*|ql-img-\w+-formula)[ "]'
    r'| src="[^"]*(?:latex\.php|codecogs|/math/render|/math/[0-9a-f]{8}|mimetex|mathtex)'
)
_DISPLAY_IMAGE: Final = re.compile(r'fallback-image-display|ql-img-displayed|class="(?:[^"]* )?displayed')
_DISPLAY: Final = re.compile(r'katex-display|MathJax_Display| display="(?:block|true)"|mwe-math-mathml-display')
_STYLE: Final = re.compile(r"\{?\\(?:displaystyle|textstyle)\s*+(.*?)\}?", re.DOTALL)
_IN_TEXT: Final = re.compile(r"\\\(((?:[^\\\x00-\x07]|\\[^()])*+)\\\)|\\\[((?:[^\\\x00-\x07]|\\[^\[\]])*+)\\\]")
_DISPLAY_TOKENS: Final = 6  # before MathML, among which the element stands that says that it is a paragraph of its own
_MAX_CHARS: Final = 20_000
# Attributes of elements whose text is TeX without signs around it, and whether it is a paragraph of its own.
NAMED_TEX: Final = frozenset(
    f' class="{name}"' for name in ("math", "math inline", "math display", "math math-inline", "math math-display")
)
_TEX_SIGN: Final = re.compile(r"[\\^_{}=]")
_WORD: Final = re.compile(r"[^\W\d_]{4}")


def formula(tex: str, *, is_display: bool) -> str:
    """Return TeX between dollars, in one line: two for a formula that is a paragraph of its own."""
    tex = " ".join(tex.replace("$", " ").split())
    if (style := _STYLE.fullmatch(tex)) is not None and tex.startswith("{") == tex.endswith("}"):
        tex = style[1].strip()
    if not tex:
        return ""
    return f"$${tex}$$" if is_display else f"${tex}$"


def named_tex(page: list[Token], position: int) -> str:
    """Return the formula of an element of NAMED_TEX that begins at a token; "" if it holds anything else."""
    _, tag, source, text = page[position]
    slash, end, _, _ = page[position + 1] if position + 1 < len(page) else ("", "", "", "")
    tex = plain(text).strip()[:_MAX_CHARS]
    if (
        not slash
        or end != tag
        or "$" in tex
        or _IN_TEXT.search(tex)
        or (_WORD.search(tex) and not _TEX_SIGN.search(tex))
    ):
        return ""
    return formula(tex, is_display="display" in source or (tag != "span" and "inline" not in source))


def formula_of_image(source: str) -> str:
    """Return the formula that an image shows; "" for any other image."""
    if not _TEX_IMAGE.search(source):
        return ""
    tex = attributes(source).get("alt", "").strip()[:_MAX_CHARS]
    is_display = _DISPLAY_IMAGE.search(source) is not None or tex.startswith(("$$", "\\["))
    return formula(_IN_TEXT.sub(lambda match: match[1] or match[2] or "", tex), is_display=is_display)


def dollars(text: str) -> str:
    r"""Put dollars where a text has TeX between \( and \) or \[ and \]."""
    return _IN_TEXT.sub(
        lambda match: formula(match[1] or match[2] or "", is_display=match[2] is not None) or match[0], text
    )


def read_math(page: list[Token], position: int) -> str:  # noqa: C901 - one flat loop
    """Read the MathML element that begins at a token, as the TeX that it was made of or as TeX made of it."""
    source = page[position][2]
    before = page[max(0, position - _DISPLAY_TOKENS) : position]
    is_display = _DISPLAY.search(source) is not None or any(
        not slash and _DISPLAY.search(attribute_source) for slash, _, attribute_source, _ in before if attribute_source
    )
    written = _Linear()
    annotation: list[str] | None = None
    depth, skipped = 0, 0
    for index in range(position, len(page)):
        slash, tag, attribute_source, text = page[index]
        if slash:
            if skipped == depth:
                skipped = 0
            elif not skipped:
                written.close(tag)
            depth -= 1
            if depth == 0:
                break
        elif tag and tag not in VOID:
            depth += 1
            if not skipped:
                if tag.startswith("annotation"):
                    skipped = depth
                    if "tex" in attribute_source.lower():
                        annotation = []
                else:
                    written.open(tag, attribute_source)
        if text and annotation is not None and skipped and not slash:
            annotation.append(plain(text))
        elif text and not skipped:
            written.add(plain(text))
    alternative = attributes(source).get("alttext", "") if "alttext" in source else ""
    tex = "".join(annotation or ()).strip() or alternative or written.text()
    return formula(tex[:_MAX_CHARS], is_display=is_display)


def _braced(text: str) -> str:
    text = text.strip()
    return text if len(text) == 1 else "{" + text + "}"


_OVER: Final = {"¯": "bar", "‾": "bar", "^": "hat", "→": "vec", "~": "tilde", "˙": "dot", "¨": "ddot", "⏞": "overbrace"}


def _over(parts: list[str]) -> str:
    base, above = (*parts, "", "")[:2]
    name = _OVER.get(above.strip())
    return f"\\{name}{{{base.strip()}}}" if name else f"{_braced(base)}^{_braced(above)}"


def _joined(form: str, count: int) -> Callable[[list[str]], str]:
    return lambda parts: form.format(*map(_braced, (*parts, *[""] * count)[:count]))


_FORMS: Final[dict[str, Callable[[list[str]], str]]] = {
    "mfrac": lambda parts: "\\frac{{{}}}{{{}}}".format(*(*parts, "", "")[:2]),
    "msup": _joined("{}^{}", 2),
    "msub": _joined("{}_{}", 2),
    "munder": _joined("{}_{}", 2),
    "msubsup": _joined("{}_{}^{}", 3),
    "munderover": _joined("{}_{}^{}", 3),
    "mover": _over,
    "mroot": lambda parts: "\\sqrt[{1}]{{{0}}}".format(*(*parts, "", "")[:2]),
    "msqrt": lambda parts: "\\sqrt{" + "".join(parts) + "}",
    "mtr": lambda parts: " & ".join(parts) + " \\\\ ",
    "mtable": lambda parts: "\\begin{matrix} " + "".join(parts) + "\\end{matrix}",
    "mtext": lambda parts: "\\text{" + "".join(parts) + "}",
}


class _Linear:
    """Writes MathML as TeX; what has no form of its own is its parts in a row."""

    def __init__(self) -> None:
        self._open: list[list[str]] = [[]]

    def open(self, tag: str, source: str) -> None:
        self._open.append([])
        if tag == "mspace":
            self._open[-1].append(" ")
        elif tag == "mfenced":
            found = attributes(source)
            self._open[-2].append(found.get("open", "("))
            self._open[-1].append("")

    def add(self, text: str) -> None:
        if not text.isspace():
            self._open[-1].append(" ".join(text.split()))

    def close(self, tag: str) -> None:
        if len(self._open) < 2:
            return
        parts = self._open.pop()
        form = _FORMS.get(tag)
        if tag == "mfenced":
            self._open[-1].append(", ".join(parts[1:]) + ")")
        else:
            self._open[-1].append(form(parts) if form else "".join(parts))

    def text(self) -> str:
        while len(self._open) > 1:
            self.close("")
        return "".join(self._open[0])
