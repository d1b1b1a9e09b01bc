"""Says of what kind the values of schema.org's properties are."""

from __future__ import annotations

import re
from typing import Final

# Of the page, of the site, of other things, or of what a shop does for everybody.
LEFT_OUT: Final = frozenset(
    """
    mainEntityOfPage potentialAction breadcrumb speakable publishingPrinciples hasMerchantReturnPolicy shippingDetails
    isPartOf itemReviewed isRelatedTo isSimilarTo isAccessoryOrSparePartFor isVariantOf hasPart relatedLink
    significantLink primaryImageOfPage subjectOf copyrightNotice acquireLicensePage
    """.split()
)
# They may be long, and are taken last: what is short is not to lack room because of them.
LONG: Final = frozenset("articleBody text reviewBody transcript hasVariant comment review reviews".split())

_NAMES: Final = {
    "people": "author creator editor contributor actor actors performer performers director",
    "named": """brand manufacturer publisher byArtist composer organizer provider seller sponsor funder
        hiringOrganization sourceOrganization copyrightHolder inAlbum genre worksFor category material color size
        pattern model illustrator translator productionCompany inLanguage department parentOrganization recipeCuisine
        recipeCategory articleSection about mentions""",
    "pictures": "image images photo logo thumbnail thumbnailUrl screenshot",
    "addresses": "url contentUrl embedUrl downloadUrl installUrl discussionUrl sameAs hasMap license menu",
    "listed": "keywords recipeIngredient ingredients",
    "steps": "recipeInstructions",
    "date": """expires doorTime validFrom validThrough validUntil priceValidUntil availabilityStarts availabilityEnds
        datePosted date""",
    "price": "price lowPrice highPrice minPrice maxPrice",
    "number": """ratingValue reviewCount ratingCount bestRating worstRating wordCount offerCount commentCount
        answerCount upvoteCount numberOfPages minValue maxValue value latitude longitude userInteractionCount position
        totalJobOpenings""",
    "duration": "totalTime prepTime cookTime performTime duration timeRequired",
    "choice": "availability itemCondition eventStatus eventAttendanceMode bookFormat",
    "flag": "isAccessibleForFree isFamilyFriendly directApply valueAddedTaxIncluded",
    "gtin": "gtin gtin8 gtin12 gtin13 gtin14",
    "currency": "priceCurrency currency salaryCurrency",
    "rating": "aggregateRating reviewRating",
    "offers": "offers",
}
_KINDS: Final = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_DATE: Final = re.compile(r"date[A-Z]\w*\Z|\w*[a-z]Date\Z")
_VOCABULARY: Final = re.compile(r"(?:https?://(?:www\.)?schema\.org/|schema:)", re.IGNORECASE)


def kind_of(name: str) -> str:
    """Return the kind of a property's values; "" for text, or whatever else it holds."""
    return _KINDS.get(name) or ("date" if _DATE.match(name) else "")


def property_name(key: str) -> str:
    """Return the name of a property without schema.org's prefix; "" for what is not taken."""
    name = _VOCABULARY.sub("", key, count=1).strip()
    return "" if name in LEFT_OUT or not name.isidentifier() else name
