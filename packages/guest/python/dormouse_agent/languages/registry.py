"""All languages. To add one, write its file and list it here (docs/languages.md)."""

from dormouse_agent.errors import OpError, invalid
from dormouse_agent.languages.bash import Bash
from dormouse_agent.languages.javascript import JavaScript
from dormouse_agent.languages.language import Language
from dormouse_agent.languages.python import Python
from dormouse_agent.languages.r import R

PYTHON = Python()
BASH = Bash()
LANGUAGES: tuple[Language, ...] = (PYTHON, JavaScript(), BASH, R())
BY_NAME = {name: language for language in LANGUAGES for name in language.names}
NAMES = tuple(BY_NAME)


def get_language(name: str) -> Language:
    language = BY_NAME.get(name)
    if language is None:
        raise invalid("language", f"must be one of {', '.join(NAMES)}, got {name[:80]!r}")
    return language


def require_program(language: Language, env: dict[str, str]) -> None:
    """Fails with the languages that this sandbox has, if it lacks the program of this one."""
    if language.find(env) is not None:
        return
    present = [name for one in LANGUAGES if one.find(env) is not None for name in one.names]
    raise OpError(
        "language_missing",
        f"this sandbox has no {language.program}, which {_names_of(language)}; "
        f"it has {', '.join(present) or 'no language'}",
    )


def _names_of(language: Language) -> str:
    verb = "needs" if len(language.names) == 1 else "need"
    return f"{' and '.join(language.names)} {verb}"
