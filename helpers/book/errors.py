"""The two ways in which a command stops: a wrong request, or a failure on the way."""


class BookError(Exception):
    """Something failed. The message says what, where, and what to do. Exit status 1."""

    exit_code = 1


class UsageError(BookError):
    """The request itself cannot be met, for example an unknown chapter. Exit status 2."""

    exit_code = 2
