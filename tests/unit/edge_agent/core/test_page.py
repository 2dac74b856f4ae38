"""Rows and families."""

from edge_agent.core import page, quantities
from wire.sample import MigInstance


def test_a_row_that_is_there_stays():
    """Two things with the same labels would make Prometheus refuse the whole scrape."""
    sheet = page.Page()
    things = [(MigInstance(uuid="A", memory_used_bytes=n), ("A",)) for n in (1, 2)]
    sheet.fill(quantities.MIG, ("mig",), things)

    assert [family.rows for family in sheet.families()] == [{("A",): 1.0}]


def test_families_without_rows_are_not_there():
    """A metric of which nothing is known is absent, its help too."""
    sheet = page.Page()
    sheet.rows("windvane_nothing", "Nothing.", ())

    assert sheet.families() == []


def test_a_value_that_is_no_number_has_no_row():
    """The other values of the same thing stay."""
    sheet = page.Page()
    broken = MigInstance(uuid="A", memory_used_bytes=10**400, memory_free_bytes=5)
    sheet.fill(quantities.MIG, ("mig",), [(broken, ("A",))])

    assert [family.metric for family in sheet.families()] == ["windvane_mig_memory_free_bytes"]


def test_texts_can_always_be_written():
    """BR-15: whatever a driver calls its device, the page can be encoded and is bounded."""
    made = page.texts(None, 7, "a\udcffb", "x" * 10_000, True)

    assert made == ("", "7", "a?b", "x" * page.TEXT_LENGTH_MAX, "True")
    assert all(text.encode() is not None for text in made)
