"""Is it well? Asked of the control plane's programs and of its nodes."""

import ssl
import urllib.request
from typing import Any


def program_is_well(url: str) -> bool:
    """Whether the page answers 200 now."""
    # These programs sign their own certificates, and only their state is asked for.
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting)
    )
    try:
        with opener.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def node_is_ready(node: Any) -> bool:
    """Whether the node is Ready and carries no not-ready taint."""
    conditions = {c.type: c.status for c in node.status.conditions or ()}
    taints = {t.key for t in node.spec.taints or ()}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints
