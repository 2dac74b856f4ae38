"""What can go wrong in the agent, by what the caller can do about it.

A library's exception never leaves the module that imports the library; it arrives
as one of these, with the library's own words in the text.
"""

from typing import Literal


class AgentError(Exception):
    """Anything the agent itself has to say; the text is for a person."""


class SpoolError(AgentError):
    """The spool cannot be read or written now."""


class SpoolInUseError(SpoolError):
    """Another process owns this spool."""


class LinkError(AgentError):
    """The broker cannot be reached, refused us, or the connection is gone."""


class SourceError(AgentError):
    """A source cannot give what it was asked for; `state` is what is to be said of it."""

    state: Literal["failed", "access lost", "driver mismatch"] = "failed"


class AccessLostError(SourceError):
    """What was readable before answers nothing any more; a new process may help."""

    state = "access lost"


class DriverMismatchError(SourceError):
    """The library in this process is not the one of the loaded driver; a new process helps."""

    state = "driver mismatch"


class GiveUpError(AgentError):
    """Only a new process can go on; the spool keeps what there is."""


class ExporterError(AgentError):
    """The Prometheus page cannot be served."""
