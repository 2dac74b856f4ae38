"""What the operator's command can fail with; each says what to do next."""


class CtlError(Exception):
    """Shown as one line; the command ends with exit code 1."""


class Unavailable(CtlError):
    """A server or tool that is not on this machine; the text says how to get it."""
