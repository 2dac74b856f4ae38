"""The Faust app: its settings, and the shape of its topics.

Each setting that differs from Faust's is time between a fault and its taint, or between a
worker's death and its successor; the reasons are in `DESIGN.md`.
"""

from typing import Any, Final

import faust

from cloud_processor import config
from cloud_processor.streams import tables, transport

RAW: Final[dict[str, Any]] = {
    "key_type": bytes,
    "value_type": bytes,
    "key_serializer": "raw",
    "value_serializer": "raw",
    "allow_empty": True,
}


def faust_app(settings: config.Settings, replication: int) -> faust.App:
    """An app without agents; nothing is connected yet."""
    brokers = ";".join(f"kafka://{host.strip()}" for host in settings.kafka.bootstrap.split(","))
    app = faust.App(
        settings.instance,
        broker=brokers,
        autodiscover=False,
        store=tables.store_url(settings),
        datadir=settings.data_dir,
        topic_partitions=settings.kafka.partitions,
        topic_replication_factor=replication,
        topic_allow_declare=True,
        topic_disable_leader=True,
        table_standby_replicas=0,
        broker_session_timeout=6.0,
        broker_heartbeat_interval=1.0,
        broker_request_timeout=40.0,
        broker_commit_interval=1.0,
        broker_max_poll_records=500,
        consumer_auto_offset_reset="earliest",
        producer_linger=0.005,
        producer_max_batch_size=256 * 1024,
        producer_max_request_size=1_000_000,
        producer_request_timeout=40.0,
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        web_host=settings.web.host,
        web_bind=settings.web.host,
        web_port=settings.web.port,
        web_router_enabled=False,
        web_tables_enabled=False,
        web_graph_enabled=False,
        web_stats_enabled=False,
        web_metrics_enabled=False,
    )
    app.transport = transport.Transport(app.conf.broker_consumer, app)
    return app
