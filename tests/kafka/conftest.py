"""The broker under test: the embedded one, or with ASSAY_TEST_BROKER=apache an Apache Kafka server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kafka.apache_kafka import jar_version
from kafka.brokers import KIND, BrokerUnderTest, make_topic, running_broker

# What the embedded broker has not, or does not bear (two members that end at once): see docs/brokers.md.
_APACHE_ALONE = ("added_partitions", "apache_malformed", "apache_members", "lost_ends", "terminations")
collect_ignore = [] if KIND == "apache" else [f"test_{each}.py" for each in _APACHE_ALONE]


def pytest_report_header() -> str:
    """The broker's own version at the head of a run of this folder."""
    return f"broker under test: {f'Apache Kafka {jar_version()}' if KIND == 'apache' else KIND}"


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerUnderTest]:
    """One broker for all tests of a run, which must leave it running."""
    with running_broker() as found:
        yield found


@pytest.fixture
def own_broker() -> Iterator[BrokerUnderTest]:
    """A broker of this test's own, that may be killed."""
    with running_broker() as found:
        yield found


@pytest.fixture
def new_topic(broker: BrokerUnderTest) -> Callable[[int], str]:
    """Makes a topic of so many partitions, waits until it is there, and gives its name."""
    return lambda partitions: make_topic(broker.bootstrap, partitions)
