"""Numbers in sentences."""

from collections.abc import Iterable

from significance import percent


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "seed"), counted(10, "seed")
    ('1 seed', '10 seeds')
    """
    return f"{number} {noun}" + ("" if number == 1 else "s")


def listed(words: Iterable[str]) -> str:
    """Words as a list in a sentence.

    >>> listed(["300 K", "600 K", "1000 K"])
    '300 K, 600 K and 1000 K'
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def about(value: float) -> str:
    """A large number to two digits, its thousands apart.

    >>> about(12345.6), about(7.3)
    ('12 000', '7')
    """
    return f"{float(f'{value:.2g}'):,.0f}".replace(",", " ")


def sentence(words: str) -> str:
    """With a capital at its beginning, and no other letter changed.

    >>> sentence("force RMSE")
    'Force RMSE'
    """
    return words[:1].upper() + words[1:]


def lower_by(reduction: float) -> str:
    """What a relative reduction does to an error.

    >>> lower_by(0.25), lower_by(-0.5)
    ('lower by 25.0 %', 'higher by 50.0 %')
    """
    size = percent(abs(reduction)).lstrip("+")
    return f"lower by {size}" if reduction >= 0 else f"higher by {size}"
