"""What never leaves the machine in a prompt or a report: keys, and the folders of this machine."""

import os
import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"\b(?:(?:sk|key|pk|xai|gsk|hf)-[\w*.-]{6,}"
    r"|(?:sk|key|pk|xai|gsk|hf|ghp)_(?=[A-Za-z0-9*.-]*[\d*])[A-Za-z0-9*.-]{8,}[\w*.-]*)",
    re.IGNORECASE,
)
"""What looks like a key in a message; `key_states` does not match, since it has no digit."""

_SURE = re.compile(
    r"\b(?:sk|pk|xai|gsk|hf|ghp|gho|glpat|github_pat)(?:[-_][A-Za-z0-9]{2,8}){0,2}[-_]"
    r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}[\w-]*"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}|(?<=\bBearer )[\w.~+/=-]{16,}"
    r"|(?<=://)[^\s/:@\"']+:[^\s/@\"']+(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
"""What can only be a key, so that it may be removed from code too."""

_HOLDS_KEY = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PASSPHRASE|CREDENTIALS?|AUTH|PAT|COOKIE|DSN"
    r"|WEBHOOK(_URL)?|DATABASE_URL)$",
    re.IGNORECASE,
)
_SHORTEST = 8
"""Fewest characters of a secret (ours): a shorter word may occur in code by chance."""

_HOMES = ("HOME", "PWD", "TMPDIR", "VIRTUAL_ENV", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
"""Variables that name folders of a person."""

_FOLDER = re.compile(
    r"(?:file://|(?<![\w.)\]])(?:\.\./)*\.\.|(?<![\w/.)\]])/?)"
    r"/(?:home|root|Users|tmp|var|opt|usr|etc|mnt|media|srv|data|scratch|work|workspace"
    r"|nfs|lustre|gpfs|proc|run)/[\w.+@/-]+"
    # Below any root: a file as a traceback and an error name it, or a whole string in quotes.
    r"|(?<![\w/.)\]:])~?/(?:[\w.+@-]+/)+[\w.+@-]+"
    r"\.(?:py|pyc|so|cu|cpp|h|toml|json|log|txt|ptx|cubin)\b"
    r"|(?<=[\"'])/(?:[\w.+@ -]+/)+[\w.+@ -]+(?=[\"'])"
)
"""Absolute paths. `n/data/2` does not match: its slash follows a word."""


def masked(text: str) -> str:
    """The text with everything that looks like a key replaced by `(key)`."""
    return _SECRET.sub("(key)", text)


def sealed(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """A part of a prompt, which may be code, without keys and without folders of this machine.

    Only the last part of a path is kept. The value of an environment variable whose name says
    that it is a secret is removed, whatever it looks like and in whatever letters.
    """
    secrets = (
        value.strip()
        for name, value in environ.items()
        if _HOLDS_KEY.search(name) and len(value.strip()) >= _SHORTEST
    )
    for secret in sorted(set(secrets), key=len, reverse=True):
        if secret.casefold() in text.casefold():
            text = re.sub(re.escape(secret), "(key)", text, flags=re.IGNORECASE)
    text = _SURE.sub("(key)", text)
    for folder in sorted({environ.get(name, "") for name in _HOMES}, key=len, reverse=True):
        if folder.count("/") > 1:
            text = text.replace(f"{folder.rstrip('/')}/", "/home/")
    return _FOLDER.sub(lambda path: path.group(0).rstrip("/").rpartition("/")[2], text)
