"""What can stop the processor, in words for the person who starts it."""


class ProcessorError(Exception):
    """The processor cannot start or go on; the message says why and what to do."""


class KafkaUnreachable(ProcessorError):
    """Kafka did not answer within the time given."""


class WrongTopics(ProcessorError):
    """Topics are missing or of the wrong shape; the message names the command that mends it."""


class KubeUnusable(ProcessorError):
    """The Kubernetes client cannot be built, or would send no credentials."""


class ClusterUnreachable(ProcessorError):
    """The API server does not answer, or refuses what has to be done now."""
