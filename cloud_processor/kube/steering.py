"""Which directory and which writer: with a cluster or without, for show or for real."""

from cloud_processor import config
from cloud_processor import telemetry as tell
from cloud_processor.kube import client, directory, dry, results, writer

Parts = tuple[directory.Directory, dry.DryWriter | writer.Writer]


def build(settings: config.Settings, telemetry: tell.Telemetry, answer: results.Answer) -> Parts:
    """The parts for these settings; raises `KubeUnusable`."""
    kube, domain = settings.kube, settings.policy.domain
    if kube.mode == "off":
        everyone = directory.Everyone()
        return everyone, dry.DryWriter(known=everyone, domain=domain, answer=answer)
    api = client.NodeReader(kube) if kube.dry_run else client.NodeWriter(kube)
    if kube.mode == "in-cluster":
        client.check_credentials(api)
    known = directory.KubeDirectory(
        reader=api, rules=settings.policy, cluster=kube.cluster, telemetry=telemetry
    )
    if not isinstance(api, client.NodeWriter):
        return known, dry.DryWriter(known=known, domain=domain, answer=answer)
    real = writer.Writer(api=api, known=known, domain=domain, answer=answer, telemetry=telemetry)
    known.on_change(real.node_changed)
    return known, real
