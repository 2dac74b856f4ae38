"""What can stop the bridge or cut its links, in words for the person who runs it."""


class BridgeError(Exception):
    """The bridge cannot start or go on; the message says why and what to do."""


class KafkaUnreachable(BridgeError):
    """Kafka did not answer within the time given."""


class WrongTopics(BridgeError):
    """Topics are missing or of the wrong shape; the message names the command that mends it."""


class SubscriptionRefused(BridgeError):
    """The broker does not let us subscribe: without it nothing would ever arrive."""


class PageUnusable(BridgeError):
    """The page with health and metrics cannot listen where it should."""


class LinkError(Exception):
    """The connection to the broker failed or ended; another one is tried."""
