"""The words and patterns by which a quantity that only a profile could tell is known in prose.

What a plan may say is what its author chooses or can count in the code: sizes of tiles, warps,
stages, an unrolling, loads, launches. What only a compiler, a profiler or a clock can tell is a
claim: time, speed, traffic, bandwidth, occupancy and their like, as a share, a ratio or an amount.
All lists are ours.
"""

import re

_ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEENS = [
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VALUES = {word: i for i, word in enumerate([*_ONES, *_TEENS], start=1)} | {
    word: 10 * i for i, word in enumerate(_TENS, start=2)
}
_one, _ten, _tens = "|".join(_ONES), "|".join(_TEENS), "|".join(_TENS)
_SPELT = (
    rf"(?:(?:{_tens})(?:[- ](?:{_one})\b)?|{_ten}|{_one})(?:[- ]?(?:hundred|thousand))?\b"
    r"|(?:a )?(?:hundred|thousand|dozen)\b"
)
NUMBER = rf"(?<![\w.])(\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?|{_SPELT})"
"""In digits or in words; the only group is what `number` reads."""
_PART = (
    r"((?:(?:an?|one|two|three|four)[- ])?"
    r"(?:half|halves|thirds?|quarters?|fifths?|sixths?|eighths?|tenths?)\b)"
)

_NOT_AMOUNT = (
    r"(?![-\w])(?!\s+(?:per|each|an?|in flight|steps?|axis|dimensions?|loops?|tiles?|blocks?"
    r"|index|slots?|hiding)\b)"
)
"""`bytes per load`, `the time dimension` and `time steps` are the code's."""
MEASURE = (
    r"((?:run[- ]?|wall[- ]?)?time|duration|speed|performance|latency|latencies|throughput"
    r"|bandwidth|traffic|bytes|occupancy|utili[sz]ation|efficiency|intensity|pressure|peak"
    r"|roofline|misses|hit rates?|conflicts|stalls|stall time|spills?|spilling|transactions"
    r"|(?<=memory )accesses|(?:(?<=memory )|(?<=dram )|(?<=hbm ))(?:reads|writes)|cost"
    rf"){_NOT_AMOUNT}"
)
"""What only a compiler, a profiler or a clock tells."""
_SPEED = (
    r"faster|slower|quicker|speed-?ups?|gains?|improvements?|wins?|savings?|as fast|less time"
    r"|the speed"
)
_CHANGES = (
    r"(?:sav|cut|gain|win|reduc|lower|improv|drop|decreas|increas|rais|boost|shorten|shav|shrink"
    r"|accelerat|speed|sped|slow|fall|fell|rise|ris|grow)\w*|go(?:es|ing)? (?:up|down)"
)
_STOP = (
    r"(?:to|and|or|which|so|that|while|by|with|for|because|since|when|as|at|in|per|each|from|into"
    r"|than|tiles?|blocks?|warps?|stages?|rows|columns?|programs?|grid|loops?|unroll\w*|vectors?"
    r"|width|sizes?|number|counts?|loads|stores|registers|threads?|chunks?|elements?|lines?"
    r"|iterations?|block_\w+|\w*_\w*)\b"
)
"""Words over which nothing that is said of what stands before them reaches what stands behind."""


def _gap(most: int) -> str:
    return rf"(?:(?!{_STOP})[\w'/-]+\s+){{0,{most}}}?"


ABOUT = r"(?:(?:about|around|roughly|nearly|almost|some|up to|at least|another|over|~|\u2248)\s*)*"
_OF_SIZE = (
    r"(?![-\s]*(?:unroll|tile|block|vector|wid|deep|stag|loop|rows?\b|warps?\b|as many|buffer"
    r"|the (?:number|count|tile|block|rows|grid)|more (?:rows|warps|programs|loads|work|stages)"
    r"|(?:larger|smaller|bigger) (?:tile|block)))"
)
"""Behind a factor: it is of something that the plan chooses."""
_TIMES = r"[- ]?(?:x|\u00d7|times|fold)(?!\w)"
_FACTOR = (
    rf"(?:(?:a |the )?factor (?:of )?{ABOUT}{NUMBER}|{NUMBER}\s*{_TIMES}"
    r"|(an order of magnitude|twofold|threefold|fourfold|fivefold|tenfold))"
)
_MORE = (
    r"(?:less|fewer|lower|higher|more|smaller|larger|better|greater|shorter|the|of the|as much|as"
    r"|(?:reduction|drop|increase|improvement|decrease|cut) (?:in|of))\s+"
)
_MULTIPLY = r"(doubl(?:es?|ed|ing)|halv(?:es?|ed|ing)|tripl(?:es?|ed|ing)|quadrupl(?:es?|ed|ing))"
_FLAGS = re.IGNORECASE

FACTORS = tuple(
    re.compile(pattern, _FLAGS)
    for pattern in (
        # 3x less traffic, three times the bandwidth, twice as fast, a threefold speedup
        (
            rf"(?:{NUMBER}\s*{_TIMES}|\b(twice|thrice|twofold|threefold|fourfold|fivefold|tenfold"
            rf"|an order of magnitude))\s+(?:(?:{_SPEED})\b|(?:{_MORE})?{_gap(3)}{MEASURE})"
        ),
        # the traffic drops by a factor of 3, latency down 2x
        rf"\b{MEASURE}\s+{_gap(3)}(?:(?:by|of|at|to)\s+)?{ABOUT}{_FACTOR}{_OF_SIZE}",
        # speeds it up by a factor of 3, reduces this 3x, faster by 2x, a gain of 3x
        (
            rf"\b(?:{_CHANGES}|{_SPEED})\s+(?:(?:it|this|that|them|the kernel|everything|things|up"
            rf"|down)\s+){{0,3}}(?:(?:by|of)\s+)?{ABOUT}{_FACTOR}{_OF_SIZE}"
        ),
        # reads three times less from DRAM
        (
            rf"{NUMBER}\s*{_TIMES}\s+(?:(?:less|fewer|more)\s+)?(?:from|to|through)"
            r" (dram|hbm|global memory)\b"
        ),
        # halves the DRAM traffic
        rf"\b{_MULTIPLY}\s+{_gap(4)}{MEASURE}",
        # the traffic is halved
        (
            rf"\b{MEASURE}\s+(?:(?:is|are|gets?|be|will|would|should|can|almost|nearly|about|roughly)"
            rf"\s+){{0,3}}{_MULTIPLY}\b"
        ),
    )
)
"""A number or a word for one, and what it is said of, in whatever order."""
SHARES = tuple(
    re.compile(pattern, _FLAGS)
    for pattern in (
        # half of the time, a third of the traffic, 0.93 of the peak
        rf"(?:\b{_PART}|(?<![\w./])([1-9]/\d)(?![\w/]))(?: of| as much)?\s+{_gap(3)}{MEASURE}",
        rf"(?<![\w.])(0?\.\d+) of {_gap(2)}{MEASURE}",
        # a quarter of the warps are resident
        (
            rf"\b{_PART} of (?:the |all |its )*(?:warps|threads|lanes|sms|cycles)"
            r"(?=\s+(?:is|are|stall|wait|sit|stay)\b)"
        ),
        # an occupancy of 0.25
        (
            r"\b(occupancy|utili[sz]ation|hit rate|efficiency)\s+(?:\w+\s+){0,2}"
            rf"(?:of|is|at|to|=|:)\s*{ABOUT}(0?\.\d+|\d\d(?:\.\d+)?)(?![\w%]|\s*(?:%|per|to\b|warps|programs|blocks))"
        ),
    )
)
CUTS = tuple(
    re.compile(pattern, _FLAGS)
    for pattern in (
        # cuts the traffic in half, lowers latency by a third
        rf"\b{MEASURE}\s+{_gap(2)}(?:by|in|to)\s+{ABOUT}{_PART}",
        rf"\b(?:sav(?:es?|ing)|(?:{_SPEED})\s+by)\s+{ABOUT}{_PART}(?=\s*(?:[.,;:!)]|$))",
    )
)
CHANGING = re.compile(
    rf"\b(?:{_CHANGES})\s+{ABOUT}$"
    rf"|\b(?:{_CHANGES}|{_SPEED})(?:\s+[\w'/-]+){{0,6}}?\s+by\s+{ABOUT}$",
    _FLAGS,
)
"""Before a number with a unit: it is a difference, not a reading."""
CHANGED = re.compile(
    r"\s*(?:faster|slower|quicker|less|fewer|more|lower|higher|better|worse|shorter|longer|speed-?up"
    r"|reduction|improvement|gain|savings?|drop|increase|decrease|win)\b",
    _FLAGS,
)
"""Behind one: the same."""
AMOUNTS = tuple(
    re.compile(pattern, _FLAGS)
    for pattern in (
        rf"\btraffic\s+(?:(?:of|is|at|to|=|:)\s*)?{ABOUT}{NUMBER}\s*([kmgt]?i?b(?:ytes?)?)\b",
        (
            rf"{NUMBER}\s*([kmgt]?i?b(?:ytes?)?) (?:of|from|through) (?:the )?(?:\w+ )?"
            r"(?:traffic|dram|hbm|global memory)\b"
        ),
    )
)
"""Bytes that are said to be moved; bytes of a tile or a row are a size."""

_IS = rf"\s+(?:already |now |only |just |about |currently )*{NUMBER}\s+"
COUNTS = tuple(
    (unit, re.compile(pattern, _FLAGS))
    for unit, pattern in (
        ("ipc", rf"\bipc\s+(?:of|is|at|=|:)\s*{ABOUT}{NUMBER}"),
        ("registers", rf"\b(?:uses|has|needs|takes){_IS}registers\b"),
        (
            "spills",
            (
                rf"\bspills{_IS}(?:registers|bytes|values)\b"
                rf"|{NUMBER} (?:registers|bytes|values) (?:are |is |get )?spilled\b"
            ),
        ),
        ("waves", rf"\b(?:has|is|runs|takes|needs|launches){_IS}waves\b"),
        ("programs", rf"\b(?:only|just)\s+{NUMBER}\s+programs (?:run|are)\b"),
        ("sms", rf"\bhas{_IS}sms\b"),
        *(
            (event, rf"{NUMBER}\s+(?:(?:bank|shared|memory|cache|l[12]|tlb)\s+)*{event}\b")
            for event in ("conflicts", "misses", "sectors", "transactions", "stalls")
        ),
        (
            "in",
            rf"{NUMBER} (?:out of|of every|in every) {NUMBER} (?:warps|cycles|threads|accesses)",
        ),
        ("in", rf"\bmisses (?:is|are|at) {NUMBER} (?:in|out of|of) {NUMBER}"),
    )
)
"""What is counted by a compiler or a profiler, and the pattern of a sentence that claims it."""


_MEASURE = re.compile(rf"{MEASURE}|accesses|reads|writes|dram|hbm|global memory", _FLAGS)


def is_measure(text: str) -> bool:
    """Whether a group of a pattern is what a number is said of, and not the number."""
    return _MEASURE.fullmatch(text) is not None


def number(text: str) -> float:
    """What a number in digits or words is: `1,500.5`, `1,8`, `twenty-four`, `two hundred`."""
    text = text.casefold().strip()
    if text[0].isdigit() or text[0] == ".":
        text = re.sub(r",(?=\d{3}(?!\d))|_", "", text).rstrip(",")
        return float(text.replace(",", ".", 1).replace(",", ""))
    total = 0.0
    for word in re.split(r"[- ]", text):
        if word in {"hundred", "thousand", "dozen"}:
            total = (total or 1) * {"hundred": 100, "thousand": 1000, "dozen": 12}[word]
        else:
            total += _VALUES.get(word, 0)
    return total
