"""The rows of driver branches: whole, sourced, and without contradictions."""

import re

import pytest

from wire import matrix_drivers as drivers
from wire.matrix_findings import driver_numbers, numbers

MONTH = re.compile(r"20[0-9]{2}-[01][0-9](-[0-3][0-9])?\Z")


@pytest.mark.parametrize("row", drivers.BRANCHES.values(), ids=lambda row: str(row.branch))
def test_every_row_is_whole(row):
    """A row has a source and a date; its versions are of its branch and in order."""
    assert row.sources
    assert set(row.sources) <= drivers.SOURCES.keys()
    assert row.date == drivers.COLLECTED
    assert (row.cuda_max is None) == (row.cuda_source is None)
    assert not (row.end_of_life and row.ended_by)
    for version in (row.first_version, row.last_version):
        assert version is None or (driver_numbers(version) or (0,))[0] == row.branch
    if row.first_version and row.last_version:
        assert numbers(row.first_version) <= numbers(row.last_version)
    for day in (row.first_date, row.last_date, row.end_of_life, row.ended_by):
        assert day is None or MONTH.match(day)


def test_rows_ascend_in_number_time_and_cuda():
    """A later branch is not older, and does not have a lower CUDA maximum."""
    rows = list(drivers.BRANCHES.values())
    first_dates = [row.first_date for row in rows if row.first_date]
    most = [numbers(row.cuda_max) for row in rows if row.cuda_max]

    assert [row.branch for row in rows] == sorted(drivers.BRANCHES)
    assert first_dates == sorted(first_dates)
    assert most == sorted(most)


def test_what_is_not_confirmed_stays_marked():
    """A designation is confirmed only where a source states it, as it does with an end date."""
    confirmed = {n for n, row in drivers.BRANCHES.items() if row.designation_confirmed}
    dated = {n for n, row in drivers.BRANCHES.items() if row.end_of_life}

    assert confirmed == dated == {535, 570, 580, 595, 610, 620}
    assert "derived" in drivers.ARCHITECTURES_FROM


def test_side_tables_speak_of_rows_that_exist():
    """Notes, CUDA sources and developer builds name branches of the table."""
    named = {*drivers.NOTES, *drivers.CUDA_SOURCES, *(b for b, _ in drivers.DEVELOPER_BUILDS)}

    assert named <= drivers.BRANCHES.keys()
    assert set(drivers.CAPABILITIES.values()) == set(drivers.ARCHITECTURES)


def test_an_unknown_word_is_refused():
    """A slip of the pen in the table fails the import, not a judgement."""
    good = drivers.TABLE.strip().splitlines()[0]
    for bad in (
        good.replace("LTS?", "lts?"),
        good.replace("Ampere", "Amper"),
        good.replace(" tags", ""),
    ):
        with pytest.raises((ValueError, TypeError)):
            drivers._parse(bad)
