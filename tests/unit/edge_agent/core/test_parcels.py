"""The words of the outbox."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import parcels
from wire import topics


@given(st.sets(st.integers(1, 60)), st.integers(1, 70))
def test_covers_is_membership(seqs, seq):
    """Ranges cover just the seqs that they were made of."""
    assert parcels.covers(topics.to_ranges(seqs), seq) == (seq in seqs)
