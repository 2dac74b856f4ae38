"""The page's values once more under the names of other exporters, for their dashboards."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from edge_agent.core import dcgm, exposition, kepler, nodeview
from edge_agent.core.page import Family, Page
from wire.sample import Sample

SETS: Final[Mapping[str, Callable[[Page, str, nodeview.NodeView, Sample], None]]] = {
    "dcgm": dcgm.rows,
    "kepler": kepler.rows,
}


def families(names: Iterable[str], views: exposition.Views, now_ms: int) -> list[Family]:
    """The rows of each chosen set; nodes whose sample is stale have none."""
    page = Page()
    for name in dict.fromkeys(names):
        for (_, node), view in views.items():
            if view.sample is not None and nodeview.is_fresh(view, now_ms):
                SETS[name](page, node, view, view.sample)
    return page.families()
