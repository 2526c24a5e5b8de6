"""A corpus small enough to read: forty short reviews, and twelve pairs of questions."""

from typing import Any

_REVIEWS = """
1|A warm, funny film with a heart as big as its budget is small.
0|The plot has more holes than my grandmother's colander.
1|Bought it for the trip to Oslo; 3 weeks later I still use it every day.
0|It broke on day 2. The seller? Silent.
1|Great soup, friendly staff, and the bread is baked in-house!
0|I wanted to like it, I really did, but no.
1|Not bad at all.
0|Not good at all.
1|The second season is even better than the first one.
0|Two hours of my life that I won't get back...
1|Crisp sound, deep bass and a battery that lasts 40 hours.
0|The battery lasts 40 minutes, if you are lucky.
1|"Wonderful" is the word my daughter used, and she is hard to please.
0|"Wonderful" is what the box says; the box lies.
1|Quiet room, soft bed, lovely view of the harbour.
0|Loud room, hard bed, and a view of the parking lot.
1|An honest book about an odd family.
0|An odd book about an honest family, and it never ends.
1|Works as described.
0|Does not work as described.
1|The new edition fixes every fault of the old one.
0|The new edition adds 12 faults to the old one.
1|She sings as if nobody were listening, and you can't stop.
0|He sings as if nobody were listening; somebody should have been.
1|Cheap, sturdy, and it fits my old bike.
0|Cheap, flimsy, and it fits nothing I own.
1|The café on the corner makes the best crêpes in town 😀
0|The café on the corner closed at 5 pm, crêpes or no crêpes 😞
1|I laughed, I cried, I called my mother.
0|I yawned, I checked my phone, I left.
1|Five stars, and I would give 6 if I could.
0|One star, because zero is not on offer.
1|The guide knew every stone of the old town.
0|The guide knew the way to the gift shop, nothing else.
1|Solid lenses for the price.
0|The lenses fell out within a week.
1|My cat loves it, which is rare praise.
0|My cat hates it, and so do I.
1|Simple rules, endless fun.
0|Endless rules, simple minds.
"""

REVIEWS: list[dict[str, Any]] = [
    {"id": number, "text": line[2:], "label": int(line[0])}
    for number, line in enumerate(_REVIEWS.strip().splitlines())
]

_QUESTIONS = """
1|How do I learn to swim?|What is a good way to learn swimming?
0|How do I learn to swim?|How deep is the pool in the park?
1|Why is the sky blue?|What makes the sky look blue?
0|Why is the sky blue?|Why is the sea salt?
1|Where can I buy cheap shoes?|Which shop sells cheap shoes?
0|Where can I buy cheap shoes?|Where can I have my shoes mended?
1|What is the capital of Peru?|Which city is the capital of Peru?
0|What is the capital of Peru?|What is the currency of Peru?
1|How long do cats live?|What is the life span of a cat?
0|How long do cats live?|How long do cats sleep?
1|Is green tea good for you?|Does green tea do you good?
0|Is green tea good for you?|Is green paint good for a kitchen?
"""

QUESTIONS: list[dict[str, Any]] = [
    {"id": number, "first": parts[1], "second": parts[2], "label": int(parts[0])}
    for number, parts in enumerate(line.split("|") for line in _QUESTIONS.strip().splitlines())
]

HARD_TEXTS = [
    "192.168.1.1. Ping?",
    "007",
    "",
    " ",
    "\t",
    "\u00a0",
    "word",
    "  two  spaces  ",
    '"bare \'quotes"',
    "a\rb\nc\r\nd",
    "Ünïcödé ß straße İstanbul",
    "日本語の文章です。",
    "مرحبا بالعالم",
    "👩‍👩‍👧‍👦 family 🇳🇴",
    "e\u0301 combining",
    "[MASK] is already here",
    "null NA nan None",
    "\u200bzero\u200bwidth\u2028line",
    "tail ",
    "don't can't won't",
]
