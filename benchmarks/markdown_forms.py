"""Writes Markdown as the HTML that MediaWiki, Discourse and GitHub make of it, in pages with their chrome."""

# ruff: noqa: E501 - lines of HTML, as these programs write them

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin


class Form(RendererHTML):
    """Plain HTML, as CommonMark says it; the others say what theirs is."""

    page = "<main>{text}</main>"

    def coloured(self, code: str) -> str:
        """Each word in an element of its own, as highlighters leave it."""
        parts = re.split(r"(\w+)", code)
        return "".join(
            f'<span class="k">{escape(part)}</span>' if n % 2 else escape(part) for n, part in enumerate(parts)
        )

    def name_of(self, token: Token) -> str:
        return token.info.split()[0] if token.info.strip() else ""


class MediaWiki(Form):
    page = (
        '<header class="vector-header"><a href="/">Main page</a> <form action="/search"><input name="q"></form></header>'
        '<nav class="vector-toc" id="mw-panel-toc"><h2>Contents</h2><ul>{nav}</ul></nav><main id="content" class="mw-body">'
        '<div id="siteSub">From the manuals</div><div id="mw-content-text"><div class="mw-parser-output">{text}</div></div>'
        '</main><div class="printfooter">Retrieved from "<a href="/x">x</a>"</div><footer id="footer"><ul><li>This page was '
        'last edited on 1 May 2024, at 10:11.</li><li><a href="/privacy">Privacy policy</a></li></ul></footer>'
    )

    def heading_close(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        edit = '<span class="mw-editsection"><span class="mw-editsection-bracket">[</span><a href="/edit?section=1">edit</a>'
        return f'{edit}<span class="mw-editsection-bracket">]</span></span></{tokens[at].tag}>'

    def fence(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        name, code = self.name_of(tokens[at]), tokens[at].content
        if not name:
            return f"<pre>{escape(code)}</pre>"
        kind = f"mw-highlight mw-highlight-lang-{name} mw-content-ltr"
        return f'<div class="{kind}" dir="ltr"><pre><span></span>{self.coloured(code)}</pre></div>'

    def table_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return '<table class="wikitable sortable">'

    def math(self, tex: str, display: str) -> str:
        tex = escape(f"{{\\displaystyle {tex.strip()}}}")
        mathml = f"<math alttext='{tex}'><semantics><mrow><mi>x</mi><mo>=</mo><mn>1</mn></mrow>"
        mathml += f'<annotation encoding="application/x-tex">{tex}</annotation></semantics></math>'
        hidden = f'<span class="mwe-math-mathml-{display} mwe-math-mathml-a11y" style="display: none;">{mathml}</span>'
        image = f'<img src="/svg/1" class="mwe-math-fallback-image-{display}" aria-hidden="true" alt="{tex}">'
        return f'<span class="mwe-math-element">{hidden}{image}</span>'

    def math_inline(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return self.math(tokens[at].content, "inline")

    def math_block(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return f"<dl><dd>{self.math(tokens[at].content, 'display')}</dd></dl>"


class Discourse(Form):
    page = (
        '<header class="d-header"><a href="/">Manuals</a></header><div id="main-outlet"><div id="topic-title"><h1>'
        '<a href="/t/1">A topic</a></h1></div><div class="topic-post"><article id="post_1"><div class="topic-meta-data">'
        '<span class="username"><a href="/u/ann">ann</a></span> <span class="post-date">May 1</span></div>'
        '<div class="cooked">{text}</div><nav class="post-controls"><button>Like</button></nav></article></div></div>'
    )

    def fence(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        name, code = self.name_of(tokens[at]), tokens[at].content
        if not name:
            return f'<pre><code class="lang-auto">{escape(code)}</code></pre>'
        return f'<pre data-code-wrap="{name}"><code class="lang-{name}">{escape(code)}</code></pre>'

    def heading_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        anchor = '<a name="p-1-x" class="anchor" href="#p-1-x"></a>'
        return f"<{tokens[at].tag}>{anchor}"

    def table_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return '<div class="md-table">\n<table>'

    def table_close(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return "</table>\n</div>"

    def math_inline(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return f'<span class="math">{escape(tokens[at].content)}</span>'

    def math_block(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return f'<div class="math">\n{escape(tokens[at].content)}\n</div>'


class GitHub(Form):
    page = (
        '<header><a href="/">manuals</a></header><div class="file-tree"><ul>{nav}</ul></div>'
        '<div id="readme"><article class="markdown-body entry-content container-lg" itemprop="text">{text}</article></div>'
        '<footer class="footer"><ul><li><a href="/terms">Terms</a></li></ul></footer>'
    )
    _copy = (
        '<div class="zeroclipboard-container"><clipboard-copy aria-label="Copy" class="ClipboardButton btn" value="{value}">'
        '<svg aria-hidden="true" class="octicon"><path d="M0"></path></svg></clipboard-copy></div>'
    )

    def fence(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        name, code = self.name_of(tokens[at]), tokens[at].content
        scope = {"bash": "shell", "html": "text-html-basic", "javascript": "js", "typescript": "ts"}.get(name, name)
        scope = scope if scope.startswith("text-") else f"source-{scope}"
        copy = self._copy.format(value=escape(code))
        if not name:
            return f'<div class="snippet-clipboard-content notranslate"><pre class="notranslate"><code>{escape(code)}</code></pre>{copy}</div>'
        kind = f"highlight highlight-{scope} notranslate position-relative overflow-auto"
        return f'<div class="{kind}" dir="auto"><pre>{self.coloured(code)}</pre>{copy}</div>'

    def heading_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        tag = tokens[at].tag
        return f'<div class="markdown-heading" dir="auto"><{tag} tabindex="-1" class="heading-element" dir="auto">'

    def heading_close(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        svg = '<svg class="octicon octicon-link" aria-hidden="true"><path d="m7"></path></svg>'
        link = f'<a id="user-content-x" class="anchor" aria-label="Permalink: x" href="#x">{svg}</a>'
        return f"</{tokens[at].tag}>{link}</div>"

    def table_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return "<markdown-accessiblity-table><table tabindex='0'>"

    def table_close(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        return "</table></markdown-accessiblity-table>"

    def math_inline(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        style = 'class="js-inline-math" style="display: inline-block" data-run-id="1"'
        return f"<math-renderer {style}>${escape(tokens[at].content)}$</math-renderer>"

    def math_block(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        style = 'class="js-display-math" style="display: block" data-run-id="1"'
        return f"<math-renderer {style}>$$\n{escape(tokens[at].content)}\n$$</math-renderer>"


def html_page(form: type[Form], markdown: str, links: Sequence[str]) -> str:
    parser = MarkdownIt("commonmark", renderer_cls=form).enable(["table", "strikethrough"])
    parser.use(dollarmath_plugin, allow_digits=False).use(footnote_plugin)
    for name in ("math_inline", "math_block"):  # the plugin brings rules of its own
        parser.add_render_rule(name, getattr(form, name))
    text = re.sub(r'href="(page-\d+)\.md"', r'href="\1.html"', parser.render(markdown))
    title = escape(markdown.split("\n", maxsplit=1)[0].strip("# "))
    nav = "".join(f'<li><a href="{name}.html">{name}</a></li>' for name in links)
    body = form.page.format(text=text, nav=nav)
    return f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>{body}</body></html>'
