"""What the Markdown of a page says, for pages as generators, highlighters and renderers of formulas write them."""

# ruff: noqa: E501 - the pages stand as they were written

import pytest

from llmcrawler.core.content import main_text, read_page
from llmcrawler.core.content.selection import joined
from llmcrawler.items import TextBlock


def markdown(html: str) -> str:
    return joined(read_page(html, "http://site.example/a/").blocks)


CODE = {
    "Sphinx, with numbers": (
        '<div class="highlight-python notranslate"><div class="highlight"><pre><span></span><span class="linenos">1</span><span class="k">def</span> f():\n<span class="linenos">2</span>    pass\n</pre></div></div>',
        "```python\ndef f():\n    pass\n```",
    ),
    "Pygments, numbers in a table": (
        '<div class="highlight"><table class="highlighttable"><tr><td class="linenos"><div class="linenodiv"><pre><span class="normal">1</span>\n<span class="normal">2</span></pre></div></td><td class="code"><div><pre><span></span><code>a = 1\nb = 2\n</code></pre></div></td></tr></table></div>',
        "```\na = 1\nb = 2\n```",
    ),
    "Docusaurus": (
        '<div class="language-js codeBlockContainer_x"><pre class="prism-code language-js"><code><span class="token-line"><span class="token">a();</span><br></span><span class="token-line"><span class="token"></span><br></span><span class="token-line"><span>b();</span><br></span></code></pre><button aria-label="Copy code to clipboard"><span>copy</span></button></div>',
        "```js\na();\n\nb();\n```",
    ),
    "VitePress": (
        '<div class="language-sh"><button title="Copy Code" class="copy"></button><span class="lang">sh</span><pre class="shiki"><code><span class="line">npm i</span>\n<span class="line"></span>\n<span class="line">npm t</span></code></pre><div class="line-numbers-wrapper" aria-hidden="true"><span>1</span></div></div>',
        "```sh\nnpm i\n\nnpm t\n```",
    ),
    "GitHub, a file": (
        '<table class="highlight js-file-line-container"><tr><td class="blob-num">1</td><td class="blob-code">import x</td></tr>\n<tr><td class="blob-num">2</td><td class="blob-code">\n</td></tr><tr><td class="blob-num">3</td><td class="blob-code">y</td></tr></table>',
        "```\nimport x\n\ny\n```",
    ),
    "GitHub, a text": ('<div class="highlight highlight-source-shell"><pre>ls</pre></div>', "```shell\nls\n```"),
    "Hexo": (
        '<figure class="highlight js"><table><tr><td class="gutter"><pre><span class="line">1</span><br><span class="line">2</span><br></pre></td><td class="code"><pre><span class="line">a</span><br><span class="line">b</span><br></pre></td></tr></table></figure>',
        "```js\na\nb\n```",
    ),
    "Rouge": (
        '<div class="language-ruby highlighter-rouge"><div class="highlight"><pre class="highlight"><code><table class="rouge-table"><tbody><tr><td class="rouge-gutter gl"><pre class="lineno">1\n2\n</pre></td><td class="rouge-code"><pre>a\n  b\n</pre></td></tr></tbody></table></code></pre></div></div>',
        "```ruby\na\n  b\n```",
    ),
    "Hugo": (
        '<div class="highlight"><pre tabindex="0" class="chroma"><code class="language-go" data-lang="go"><span class="line"><span class="ln">1</span><span class="cl">x\n</span></span><span class="line"><span class="ln">2</span><span class="cl">y\n</span></span></code></pre></div>',
        "```go\nx\ny\n```",
    ),
    "highlight.js with numbers": (
        '<pre><code class="hljs language-css"><table class="hljs-ln"><tr><td class="hljs-ln-numbers" data-line-number="1"><div class="hljs-ln-n"></div></td><td class="hljs-ln-code">a {</td></tr><tr><td class="hljs-ln-numbers"></td><td class="hljs-ln-code">}</td></tr></table></code></pre>',
        "```css\na {\n}\n```",
    ),
    "Expressive Code": (
        '<pre data-language="ts"><code><div class="ec-line"><div class="code"><span>let a</span></div></div><div class="ec-line"><div class="code"></div></div><div class="ec-line"><div class="code">b</div></div></code></pre>',
        "```ts\nlet a\nb\n```",
    ),
    "Prism with numbers": (
        '<pre class="line-numbers language-rust"><code class="language-rust">x<span aria-hidden="true" class="line-numbers-rows"><span></span></span></code></pre>',
        "```rust\nx\n```",
    ),
    "SyntaxHighlighter, with a fence in it": (
        '<pre class="brush: php; notranslate">echo "```";</pre>',
        '````php\necho "```";\n````',
    ),
    "pandoc": ('<pre class="sourceCode haskell"><code>f\xa0x</code></pre>', "```haskell\nf x\n```"),
    "MediaWiki": (
        '<div class="mw-highlight mw-highlight-lang-python3 mw-content-ltr"><pre>p</pre></div>',
        "```python\np\n```",
    ),
    "a class that is no language": ('<pre class="wp-block-code large"><code>p</code></pre>', "```\np\n```"),
    "plain text": ('<pre><code class="language-plaintext">p</code></pre>', "```text\np\n```"),
    "no language by name": (
        '<div class="highlight-default notranslate"><div class="highlight"><pre>p</pre></div></div>',
        "```\np\n```",
    ),
}


@pytest.mark.parametrize(("html", "expected"), CODE.values(), ids=CODE)
def test_code_is_fenced_with_its_language_and_lines(html: str, expected: str) -> None:
    assert markdown(html) == expected


FORMULAS = {
    "KaTeX": (
        '<p>a <span class="katex"><span class="katex-mathml"><math><semantics><mi>E</mi><annotation encoding="application/x-tex">E=mc^2</annotation></semantics></math></span><span class="katex-html" aria-hidden="true">E=m</span></span> b</p>',
        "a $E=mc^2$ b",
    ),
    "KaTeX, displayed": (
        '<span class="katex-display"><span class="katex"><span class="katex-mathml"><math><semantics><mi>x</mi><annotation encoding="application/x-tex">\\frac{a}{b}</annotation></semantics></math></span></span></span>',
        "$$\\frac{a}{b}$$",
    ),
    "MathJax 3": (
        '<p>a <mjx-container class="MathJax" jax="CHTML"><mjx-math aria-hidden="true"><mjx-mi>x</mjx-mi></mjx-math><mjx-assistive-mml display="inline"><math><msup><mi>x</mi><mn>2</mn></msup><mo>+</mo><mfrac><mn>1</mn><mrow><mn>2</mn><mi>y</mi></mrow></mfrac></math></mjx-assistive-mml></mjx-container> b</p>',
        "a $x^2+\\frac{1}{2y}$ b",
    ),
    "MathJax 2": (
        '<p>a <span class="MathJax_Preview">x</span><span class="MathJax"><span>x2</span></span><script type="math/tex">x^2</script> b</p><script type="math/tex; mode=display">y<1</script>',
        "a $x^2$ b\n\n$$y<1$$",
    ),
    "MediaWiki": (
        '<p>m <span class="mwe-math-element"><span style="display: none;"><math><annotation encoding="application/x-tex">{\\displaystyle E=c^{2}}</annotation></math></span><img src="/math/render/svg/0" class="mwe-math-fallback-image-inline" aria-hidden="true" alt="{\\displaystyle E=c^{2}}"></span> n</p>',
        "m $E=c^{2}$ n",
    ),
    "LaTeXML": ('<p><math alttext="x_{1}" display="block"><mi>x</mi></math></p>', "$$x_{1}$$"),
    "WordPress": (
        '<p>so <img src="https://s0.wp.com/latex.php?latex=x" alt="x^2" class="latex"> is</p>',
        "so $x^2$ is",
    ),
    "Sphinx": (
        '<p>a <span class="math notranslate nohighlight">\\(a_i^2\\)</span> b</p><div class="math">\\[\\sum_i x\\]</div><p>Code <code>\\(no\\)</code></p>',
        "a $a_i^2$ b\n\n$$\\sum_i x$$\n\nCode `\\(no\\)`",
    ),
    "MathML alone": (
        "<p><math><munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover><msqrt><mi>x</mi></msqrt><mroot><mi>x</mi><mn>3</mn></mroot><mover><mi>v</mi><mo>→</mo></mover><mtext>if</mtext><msub><mi>a</mi><mn>12</mn></msub><mfenced><mi>a</mi><mi>b</mi></mfenced></math></p>",
        "$∑_i^n\\sqrt{x}\\sqrt[3]{x}\\vec{v}\\text{if}a_{12}(a, b)$",
    ),
    "TeX without signs": (
        '<p>a <span class="math">x^2</span> b <span class="math">Mathematics</span></p><div class="math">\n\\lim_{f}\n</div><table><tr><th>A<tr><td><span class="math inline">n</span></table><div class="math">\\(y\\)</div>',
        "a $x^2$ b Mathematics\n\n$$\\lim_{f}$$\n\n| A |\n| --- |\n| $n$ |\n\n$y$",
    ),
}


@pytest.mark.parametrize(("html", "expected"), FORMULAS.values(), ids=FORMULAS)
def test_formulas_are_tex_and_stand_once(html: str, expected: str) -> None:
    assert markdown(html) == expected


TABLES = {
    "spans, lists, breaks, images, a caption": (
        '<table><caption>Cap</caption><thead><tr><th rowspan=2>N</th><th colspan=2>Price</th></tr><tr><th>EUR</th><th>USD</th></tr></thead><tbody><tr><td rowspan=2>a</td><td>1</td><td><ul><li>x</li><li>y</li></ul></td></tr><tr><td>2<br>3</td><td><p>p</p><p>q|r</p></td></tr><tr><td colspan=3>All</td></tr><tr><td>u</td></tr><tr><td></td><td><img alt="Yes" src=x></td><td></td></tr><tr><td></td><td></td><td></td></tr></tbody></table>',
        "Cap\n\n| N | Price | Price |\n| --- | --- | --- |\n| N | EUR | USD |\n| a | 1 | - x<br>- y |\n| a | 2<br>3 | p<br>q\\|r |\n| All |  |  |\n| u |  |  |\n|  | Yes |  |",
    ),
    "no header": (
        "<table><tr><td>Place</td><td>Hamburg</td></tr><tr><td>Doors</td><td>20:00</td></tr></table>",
        "|  |  |\n| --- | --- |\n| Place | Hamburg |\n| Doors | 20:00 |",
    ),
    "headers of rows": (
        "<table><tr><th>Place</th><td>Hamburg</td></tr><tr><th>Doors</th><td>20:00</td></tr></table>",
        "|  |  |\n| --- | --- |\n| Place | Hamburg |\n| Doors | 20:00 |",
    ),
    "one row": ("<table><tr><td>one</td><td>row</td></tr></table>", "|  |  |\n| --- | --- |\n| one | row |"),
    "a header in bold": (
        "<table><tr><td><b>A</b></td><td><b>B</b></td></tr><tr><td>1</td><td>2</td></tr></table>",
        "| **A** | **B** |\n| --- | --- |\n| 1 | 2 |",
    ),
    "a title above the header": (
        "<table><tr><th colspan=2>Title</th></tr><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>",
        "Title\n\n| A | B |\n| --- | --- |\n| 1 | 2 |",
    ),
    "two beside each other": (
        "<table><tr><th>A<tr><td>1</table><table><tr><th>B<tr><td>2</table>",
        "| A |\n| --- |\n| 1 |\n\n| B |\n| --- |\n| 2 |",
    ),
    "code and a table in cells": (
        "<table><tr><th>A</th><th>B</th></tr><tr><td>x<table><tr><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table></td><td><pre>l1\nl2</pre></td></tr></table>",
        "| A | B |\n| --- | --- |\n| x<br>1, 2<br>3, 4 | `l1`<br>`l2` |",
    ),
    "in an item": ("<ul><li>a<table><tr><th>A<tr><td>1</table></li></ul>", "- a\n\n  | A |\n  | --- |\n  | 1 |"),
    "first in an item": (
        "<ol><li><table><tr><th>A<tr><td>1<tr><td>2</table></li><li><table><tr><th>B<tr><td>3</table></li></ol>",
        "1. | A |\n   | --- |\n   | 1 |\n   | 2 |\n\n2. | B |\n   | --- |\n   | 3 |",
    ),
    "inline elements in a row": (
        "<table><tr><th>A<tr><td>see <code><span>x</span></code>, <span>y</span>.</table>",
        "| A |\n| --- |\n| see `x`, y. |",
    ),
    "of layout, with a heading": (
        "<table><tr><td><h2>Title</h2><p>text</p></td><td>side</td></tr></table>",
        "## Title\n\ntext\n\nside",
    ),
    "of layout, as it says": ('<table role="presentation"><tr><td>a</td><td>b</td></tr></table>', "a\n\nb"),
    "of layout, around others": (
        "<table><tr><td>menu</td><td><table><tr><th>A<th>B<tr><td>1<td>2</table></td></tr></table>",
        "menu\n\n| A | B |\n| --- | --- |\n| 1 | 2 |",
    ),
    "of layout, one cell": ("<table><tr><td>single</td></tr></table>", "single"),
}


@pytest.mark.parametrize(("html", "expected"), TABLES.values(), ids=TABLES)
def test_tables_have_all_rows(html: str, expected: str) -> None:
    assert markdown(html) == expected


LISTS = {
    "definitions": (
        "<dl><dt>Term</dt><dd>One</dd><dd><p>two</p><p>more</p></dd><dt>B</dt><dd>x</dd></dl>",
        "Term\n: One\n: two\n\n  more\n\nB\n: x",
    ),
    "a reference of code is no list of definitions": (
        "<dl><dt>f(x)</dt><dd><p>Does it.</p><pre>f(1)</pre></dd></dl>",
        "f(x)\n\nDoes it.\n\n```\nf(1)\n```",
    ),
    "tasks": (
        '<ul><li class="task-list-item"><input type="checkbox" disabled checked> Done</li><li><p><input type="checkbox" disabled> Open</p></li></ul>',
        "- [x] Done\n- [ ] Open",
    ),
    "several blocks in items": (
        '<ol start="3"><li><p>a</p><p>b</p><pre><code>c\nd</code></pre><ul><li>n<blockquote><p>q</p></blockquote></li></ul><p>after</p></li><li>z</li></ol>',
        "3. a\n\n   b\n\n   ```\n   c\n   d\n   ```\n\n   - n\n\n     > q\n\n   after\n\n4. z",
    ),
    "a list in a list": ("<ul><li>a</li><ul><li>b</li></ul></ul>", "- a\n  - b"),
    "quotes": (
        "<blockquote><p>a</p><blockquote>b</blockquote><ul><li>c</li></ul></blockquote>",
        "> a\n>\n> > b\n>\n> - c",
    ),
    "a card": ("<ul><li><h3>Card</h3><p>text</p></li><li>plain</li></ul>", "### Card\n\ntext\n\n- plain"),
    "notes of Markdown": (
        '<p>Text<sup id="fnref:1"><a class="footnote-ref" href="#fn:1">1</a></sup> more.</p><div class="footnote"><hr><ol><li id="fn:1"><p>The note.&#160;<a class="footnote-backref" href="#fnref:1">&#8617;</a></p></li></ol></div>',
        "Text[^1] more.\n\n[^1]: The note.",
    ),
    "notes of docutils": (
        '<p>Ref <a class="footnote-reference brackets" href="#id2" id="id1" role="doc-noteref"><span>[</span>1<span>]</span></a></p><aside class="footnote brackets" id="id2"><span class="label"><span>[</span><a role="doc-backlink" href="#id1">1</a><span>]</span></span><p>Note text</p></aside>',
        "Ref [^1]\n\n[^1]: Note text",
    ),
    "links to what is said of notes": (
        '<p><a class="reference internal" href="#sqlalchemy.orm.backref">backref</a> or <a href="#footnotes">Footnotes</a></p><p id="footnotes">x</p>',
        "[backref](http://site.example/a/#sqlalchemy.orm.backref) or [Footnotes](http://site.example/a/#footnotes)\n\nx",
    ),
    "notes of a word processor": (
        '<p>Ref <a href="#_ftn1" name="_ftnref1">[1]</a></p><div id="ftn1"><p id="_ftn1"><a href="#_ftnref1">[1]</a> Note text</p></div>',
        "Ref [^1]\n\n[^1]: Note text",
    ),
    "notes of older docutils": (
        '<p>Ref <a class="footnote-reference" href="#id2" id="id1">[1]</a></p><table class="docutils footnote" id="id2"><colgroup><col class="label"><col></colgroup><tbody><tr><td class="label"><a class="fn-backref" href="#id1">[1]</a></td><td>Note text</td></tr></tbody></table>',
        "Ref [^1]\n\n[^1]: Note text",
    ),
    "quotes behind each other": (
        "<blockquote><p>a</p><p>b</p></blockquote><blockquote><pre>[c](d)</pre></blockquote><blockquote><table><tr><th>A<tr><td>1</table></blockquote>",
        "> a\n>\n> b\n\n> ```\n> [c](d)\n> ```\n\n> | A |\n> | --- |\n> | 1 |",
    ),
    "remarks": (
        '<div class="admonition note"><p class="admonition-title">Note</p><p>one</p><p>two</p></div><div class="theme-admonition theme-admonition-tip alert"><div class="admonitionHeading_x"><span><svg></svg></span>tip</div><div class="admonitionContent_y"><p>Docu</p><pre><code class="language-sh">ls\n\nx</code></pre></div></div>',
        "> **Note**\n>\n> one\n>\n> two\n\n> **tip**\n>\n> Docu\n>\n> ```sh\n> ls\n>\n> x\n> ```",
    ),
    "details and tabs": (
        '<details><summary>More</summary><p>inner</p></details><div role="tabpanel" class="tabItem_x" hidden=""><p>second</p></div>',
        "More\n\ninner\n\nsecond",
    ),
    "a table of contents that is folded": (
        '<p>a</p><div class="toc-content" hidden=""><ol><li>First heading</li></ol></div><div id="TableOfContents_panel" aria-hidden="true">b</div><p>c</p>',
        "a\n\nc",
    ),
}


@pytest.mark.parametrize(("html", "expected"), LISTS.values(), ids=LISTS)
def test_lists_notes_and_remarks_keep_their_form(html: str, expected: str) -> None:
    assert markdown(html) == expected


IN_A_LINE = {
    "permalinks": (
        '<h2>Title<a class="headerlink" href="#x" title="Link to this heading">¶</a></h2><h3><a class="anchor" href="#y"><span>Link to this heading</span></a>Other</h3><h4>T<a class="hash-link" href="#t">\u200b</a></h4>',
        "## Title\n\n### Other\n\n#### T",
    ),
    "headings that link to themselves": (
        '<h2><a class="toc-backref" href="#id1" role="doc-backlink">Whole</a><a class="headerlink" href="#z">#</a></h2>',
        "## Whole",
    ),
    "links of headings into the page": (
        '<h5 id="x">hook&lt; <a href="#raw">Raw</a>, <a class="autorefs" href="#b">B</a>&gt;<a class="headerlink" href="#x">¶</a></h5><h3 id="y">1. <a href="#y">Own</a></h3><section id="z"><h3><a href="#z">All</a></h3></section>',
        "##### hook< [Raw](http://site.example/a/#raw), [B](http://site.example/a/#b)>\n\n### 1. Own\n\n### All",
    ),
    "controls of headings": (
        '<h2>Title<span class="mw-editsection"><span class="mw-editsection-bracket">[</span><a href="/e?section=1">edit</a><span class="mw-editsection-bracket">]</span></span></h2><h2>Other <a class="edit-link" href="/e">Change</a></h2><h3>How to <a href="/editing">edit</a></h3>',
        "## Title\n\n## Other\n\n### How to [edit](http://site.example/editing)",
    ),
    "links around blocks": (
        '<a href="/c"><div><p>New</p><h3>Card</h3><p>text</p></div></a><a href="/d"><div>One</div><div>two</div></a>',
        "New\n\n### [Card](http://site.example/c)\n\ntext\n\n[One](http://site.example/d)\n\ntwo",
    ),
    "labels of tabs": (
        '<div class="tabs"><input type="radio"><label for="a">C</label><label for="b">C++</label></div><p><button>Yes</button> or <button>No</button></p>',
        "C | C++\n\nYes or No",
    ),
    "images": (
        '<h2>T</h2><p><img src="a.png" alt="A tall tower"></p><p>text <img src="/b.png" alt="Some bridge"> more <img src="c.png" alt="more"><img src="i/icon.png" alt="An icon"></p><h2>U</h2><figure><picture><img src="data:image/png;x" alt="Nothing"><img src="d.png" alt="A map (old)"></picture></figure><p>end</p><a href="/"><p><img src="e.png" alt="Our shop"></p>Home</a>',
        "## T\n\n![A tall tower](http://site.example/a/a.png)\n\ntext ![Some bridge](http://site.example/b.png) more\n\n## U\n\n![A map (old)](http://site.example/a/d.png)\n\nend\n\n[Home](http://site.example/)",
    ),
    "images with captions, which may be no main text": (
        '<p>One</p><figure><img src="a.png" alt="A tall tower"><figcaption>A tall tower</figcaption></figure><p>Two</p><h2>T</h2><figure><img src="b.png" alt="Some bridge"><figcaption>Built by us</figcaption></figure>',
        "One\n\n![A tall tower](http://site.example/a/a.png)\n\nA tall tower\n\nTwo\n\n## T\n\n![Some bridge](http://site.example/a/b.png)\n\nBuilt by us",
    ),
    "rules between texts": (
        '<hr><p>a</p><hr/>b<hr><h2>T</h2><hr><ul><li>c<hr>d</li></ul><p>e</p><hr class="footnotes-sep"><section><p>f</p></section><section><hr><p>g</p></section><hr>',
        "a\n\n---\n\nb\n\n---\n\n## T\n\n- c\n\n  d\n\ne\n\nf\n\ng",
    ),
    "quotations and readings": (
        "<p>They said <q>no</q>. <ruby>東<rt>とう</rt>京<rp>（</rp><rt>きょう</rt><rp>）</rp></ruby></p>",
        "They said “no”. 東(とう)京(きょう)",
    ),
    "code": (
        "<p><code>a`b</code>, <code><em>x</em> <strong>y</strong></code>, <code>``</code> and <kbd>Ctrl</kbd></p>",
        "`` a`b ``, `x y`, ``` `` ``` and `Ctrl`",
    ),
    "emphasis": ("<p><b>a</b><b>b</b> <b><strong>t</strong></b> <i> </i><del>old</del></p>", "**ab** **t** ~~old~~"),
    "powers and what is set high besides": (
        "<p>H<sub>2</sub>O 10<sup>6</sup> m<sup>2</sup>, 1<sup>st</sup> $19<sup>99</sup></p>",
        "H2O 10^6 m^2, 1st $1999",
    ),
    "lines of an address": ("<p>A street 1<br>B town<br><br>C land</p>", "A street 1  \nB town\n\nC land"),
    "a text like a heading": ("<p># no heading</p>", "\\# no heading"),
    "a text like code that is not closed": (
        "<p>```js x</p><ul><li>~~~</li></ul><p>a<br>```<br># b</p><p><code>a``b</code> c</p>",
        "\\```js x\n\n- \\~~~\n\na  \n\\```  \n\\# b\n\n``` a``b ``` c",
    ),
    "a link in code is none": ("<pre>[a](b)</pre>", "```\n[a](b)\n```"),
}


@pytest.mark.parametrize(("html", "expected"), IN_A_LINE.values(), ids=IN_A_LINE)
def test_what_stands_in_a_line_keeps_its_meaning(html: str, expected: str) -> None:
    assert markdown(html) == expected


def test_a_displayed_formula_between_main_blocks_stays() -> None:
    blocks = [TextBlock("word " * 40, 40, 0.9, 1), TextBlock("$$a^2$$", 1, 0.1, 2), TextBlock("word " * 40, 40, 0.9, 3)]
    assert "$$a^2$$" in main_text(blocks)
