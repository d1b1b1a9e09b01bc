"""Recipes with microdata: ingredients and steps are lists of properties, durations stand in attributes and in words."""

from __future__ import annotations

from html import escape
from random import Random
from typing import Any

from tests.servers.record_sites import words
from tests.servers.record_sites.frame import Frame, list_pages, other_pages
from tests.servers.record_sites.truth import Shown, SitePage

COUNT = 35
SECTIONS = ("Soups", "Bread", "Sweets")
FRAME = Frame("Slow Spoon", SECTIONS, "semantic")
FOODS = (
    "barley beetroot butter cardamom chickpeas cream dill flour leeks lentils oats onions pears rye salt thyme".split()
)


def make(rng: Random, redesign: bool) -> list[SitePage]:
    items = [(f"/recipes/{words.slug(title)}/", _fields(rng, title)) for title in _titles(rng)]
    pages = other_pages(FRAME, rng, SECTIONS, "/recipes/")
    pages += list_pages(FRAME, "/recipes/", [(path, fields["name"]) for path, fields in items])
    for path, fields in items:
        more = rng.sample([item for item in items if item[0] != path], 3)
        pages.append(SitePage(path, _render(fields, more), "recipe", fields))
    return pages


def _titles(rng: Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < COUNT:
        one, other = rng.sample(FOODS, 2)
        found[f"{rng.choice(words.ADJECTIVES).title()} {one} {rng.choice(['soup', 'bread', 'cake'])} with {other}"] = (
            None
        )
    return list(found)


def _fields(rng: Random, name: str) -> dict[str, Any]:
    prep, cook = rng.randint(5, 55), rng.randint(10, 59)
    rated = words.maybe(rng, 0.6)
    return {
        "name": name,
        "author": words.person(rng),
        "published": Shown((day := words.day(rng)).isoformat(), day.isoformat()),
        "prep_time": f"{prep} minutes",
        "cook_time": f"{cook} min" if words.maybe(rng, 0.7) else None,
        "servings": Shown(str(count := rng.randint(2, 12)), count),
        "calories": f"{rng.randint(90, 900)} kcal" if words.maybe(rng, 0.5) else None,
        "rating": Shown(str(mark := rng.randint(21, 50) / 10), mark) if rated else None,
        "ingredients": [f"{rng.randint(1, 900)} g {food}" for food in rng.sample(FOODS, rng.randint(3, 9))],
        "steps": [words.sentence(rng) for _ in range(rng.randint(2, 6))],
        "notes": words.paragraph(rng, 2) if words.maybe(rng, 0.4) else None,
    }


def _render(f: dict[str, Any], more: list[tuple[str, dict[str, Any]]]) -> str:
    prep = f["prep_time"].split()[0]
    cook = (f["cook_time"] or "").split(" ")[0]
    main = (
        '<div itemscope itemtype="https://schema.org/Recipe" class="h-recipe">'
        f'<h1 itemprop="name">{escape(f["name"])}</h1><p class="meta">A recipe by '
        f'<span itemprop="author" itemscope itemtype="https://schema.org/Person">'
        f'<span itemprop="name">{f["author"]}</span></span>, '
        f'<time itemprop="datePublished" datetime="{f["published"]}">some time ago</time></p>'
        + (
            '<p itemprop="aggregateRating" itemscope itemtype="https://schema.org/AggregateRating">Rated '
            f'<b itemprop="ratingValue">{f["rating"]}</b>/5 by '
            f'<span itemprop="ratingCount">{len(f["steps"]) * 7}</span></p>'
            if f["rating"]
            else ""
        )
        + f'<ul class="times"><li>Prep: <time itemprop="prepTime" datetime="PT{prep}M">{f["prep_time"]}</time></li>'
        + (f'<li>Cooking: <time itemprop="cookTime" datetime="PT{cook}M">{f["cook_time"]}</time></li>' if cook else "")
        + f'<li>Serves <span itemprop="recipeYield">{f["servings"]}</span></li>'
        + (
            '<li itemprop="nutrition" itemscope itemtype="https://schema.org/NutritionInformation">'
            f'<span itemprop="calories">{f["calories"]}</span> each</li>'
            if f["calories"]
            else ""
        )
        + "</ul><h2>Ingredients</h2><ul>"
        + "".join(f'<li itemprop="recipeIngredient">{one}</li>\n' for one in f["ingredients"])
        + '</ul><h2>Method</h2><ol itemprop="recipeInstructions">'
        + "".join(f"<li>{escape(one)}</li>\n" for one in f["steps"])
        + "</ol>"
        + (f'<h2>Notes</h2><p class="tip">{escape(f["notes"])}</p>' if f["notes"] else "")
        + '</div><aside><h2>More like this</h2><ul class="cards">'
        + "".join(
            f'<li><a href="{path}">{escape(other["name"])}</a> <time>{other["prep_time"]}</time></li>'
            for path, other in more
        )
        + "</ul></aside>"
    )
    return FRAME.page(f["name"], main)
