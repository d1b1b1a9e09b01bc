"""Render the templates of Django packages on given data, by Django 3.2, without the packages' code and their database.

Reads a task in JSON from standard input: "dirs" (of templates), "locales", "language", "templates" (path: text, what a
project adds), "filters", "tags" (see `_filter` and `Tag`), "pages" (template, context, file). Writes the files. Tags
and filters that neither Django nor the task has print nothing or leave the value as it is.
"""

import json
import sys
from datetime import datetime
from pathlib import Path

import django
from django.conf import settings
from django.template import Context, Engine, Library, Node, defaulttags
from django.template import base as template_base
from django.utils import translation
from django.utils.html import escape
from django.utils.safestring import mark_safe


class Row(dict):
    """An object of the data: templates print its "_text"."""

    def __str__(self):
        return str(self.get("_text", ""))

    def __getitem__(self, key):
        return dict.__getitem__(self, key)


class Rows(list):
    """What a query gives: `count` is a property here."""

    @property
    def count(self):
        return len(self)


def revived(row):
    if "_items" in row:
        return Rows(row["_items"])
    return datetime.fromisoformat(row["_date"]) if "_date" in row else Row(row)


class Empty(Node):
    def render(self, context):
        return ""


class Url(Node):
    def __init__(self, parts):
        self.parts = parts

    def render(self, context):
        texts = [str(part.resolve(context, ignore_failures=True) or "") for part in self.parts]
        return escape("/" + "/".join(text.replace(" ", "-").lower() for text in texts if text) + "/")


class Tag(Node):
    """`{"render": true}` prints the attribute that the second argument names; `{"print": 0}` prints that argument;
    `{"template": path}` includes a template."""

    def __init__(self, how, arguments):
        self.how = how
        self.arguments = arguments

    def render(self, context):
        values = [one.resolve(context, ignore_failures=True) for one in self.arguments]
        if "template" in self.how:
            with context.push():
                template = context.template.engine.get_template(self.how["template"])
                return template.nodelist.render(context)
        value = values[0].get(values[1], "") if "render" in self.how else values[self.how["print"]]
        text = "" if value is None else str(value)
        return mark_safe(text) if text.startswith("<") else escape(text)


def _url(parser, token):
    words = [word for word in token.split_contents()[1:] if "=" not in word or "'" in word]
    words = words[: words.index("as")] if "as" in words else words
    name, *rest = words
    quoted = name if name[0] in "'\"" else f'"{name}"'
    return Url([parser.compile_filter(word) for word in (quoted.replace(":", "_"), *rest)])


def _tag(how):
    def compiled(parser, token):
        words = [
            word for word in token.split_contents()[1:] if "=" not in word and (word[0] in "'\"" or word[0].isalpha())
        ]
        return Tag(how, [parser.compile_filter(word) for word in words])

    return compiled


def _filter(how):
    """{"key": name} takes that of the object; {"format": text} formats a number, by the language's marks."""

    def filtered(value, argument=None):
        if "key" in how:
            return value.get(how["key"])
        number = f"{float(value):,.{how.get('digits', 2)}f}"
        if how.get("comma"):
            number = number.replace(",", " ").replace(".", ",").replace(" ", ".")
        return how["format"].format(number)

    return filtered


class Tags(dict):
    def __missing__(self, name):
        return lambda parser, token: Empty()


def make_lenient(task):
    added = Library()
    added.tags = {"url": _url, "namespace_url": _url, **{name: _tag(how) for name, how in task.get("tags", {}).items()}}
    added.filters = {name: _filter(how) for name, how in task.get("filters", {}).items()}

    made = template_base.Parser.__init__

    def init(self, *args, **kwargs):
        made(self, *args, **kwargs)
        self.tags = Tags(self.tags)
        self.add_library(added)

    def add_library(self, library):
        self.tags.update(library.tags)
        self.filters.update(library.filters)
        self.tags.update(added.tags)
        self.filters.update(added.filters)

    template_base.Parser.__init__ = init
    template_base.Parser.add_library = add_library
    template_base.Parser.find_filter = lambda self, name: self.filters.get(name, lambda value, argument=None: value)
    found = defaulttags.find_library
    names = {"i18n", "l10n", "tz", "static", "humanize", "cache"}
    defaulttags.find_library = lambda parser, name: found(parser, name) if name in names else Library()


def main():
    task = json.load(sys.stdin, object_hook=revived)
    settings.configure(
        LANGUAGE_CODE=task["language"],
        LOCALE_PATHS=task.get("locales", []),
        USE_I18N=True,
        USE_L10N=True,
        USE_TZ=False,
        STATIC_URL="/static/",
        INSTALLED_APPS=["django.contrib.humanize"],
        DATABASES={},
    )
    django.setup()
    make_lenient(task)
    translation.activate(task["language"])
    loaders = [
        ("django.template.loaders.locmem.Loader", task.get("templates", {})),
        ("django.template.loaders.filesystem.Loader", task["dirs"]),
    ]
    engine = Engine(
        loaders=loaders,
        libraries={
            "i18n": "django.templatetags.i18n",
            "l10n": "django.templatetags.l10n",
            "tz": "django.templatetags.tz",
            "static": "django.templatetags.static",
            "humanize": "django.contrib.humanize.templatetags.humanize",
        },
        builtins=["django.templatetags.i18n", "django.templatetags.static"],
    )
    for page in task["pages"]:
        html = engine.get_template(page["template"]).render(Context({**task.get("context", {}), **page["context"]}))
        Path(page["file"]).write_text(html, encoding="utf-8")


if __name__ == "__main__":
    main()
