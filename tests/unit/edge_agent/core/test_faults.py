"""Faults on request."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import faults


def test_the_documented_lines_are_understood():
    """Each line of the manual is a fault."""
    lines = (
        '{"node":"edge-03","fault":"xid","xid":79,"gpu":0,"duration_s":40}',
        '{"node":"edge-05","fault":"load","utilization_percent":97,"duration_s":600}',
        '{"node":"edge-01","fault":"hot","at_s":12}',
        '{"node":"edge-01","fault":"hang","duration_s":9}',
        '{"node":"edge-01","fault":"silent","duration_s":9}',
    )

    assert [type(faults.parse(line)) for line in lines] == [faults.Fault] * 5


@given(st.one_of(st.binary(max_size=30), st.text(max_size=30)))
def test_any_other_line_is_a_problem_in_words(line):
    """Nonsense is answered with text, never with an exception."""
    assert isinstance(faults.parse(line), str)


def test_what_is_missing_or_unknown_is_named():
    """An XID without a number and a key that is not known are problems."""
    assert "xid" in faults.parse('{"node":"a","fault":"xid"}')
    assert "colour" in faults.parse('{"node":"a","fault":"hot","colour":1}')


def test_a_fault_has_a_beginning_an_end_and_a_target():
    """In force from its start to its end; an XID without a GPU is for the first one."""
    one = faults.Active(fault=faults.Fault(node="a", fault="xid", xid=79, duration_s=10), from_s=5)

    assert [bool(faults.active([one], "xid", t)) for t in (4.9, 5, 14.9, 15)] == [
        False,
        True,
        True,
        False,
    ]
    assert (faults.hits(one, 0), faults.hits(one, 1)) == (True, False)
    load = faults.Active(fault=faults.Fault(node="a", fault="load"), from_s=0)
    assert faults.hits(load, 3)
    only = faults.Active(fault=faults.Fault(node="a", fault="load", gpu=1), from_s=0)
    assert (faults.hits(only, 0), faults.hits(only, 1)) == (False, True)
