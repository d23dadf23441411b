"""Crash points do nothing unless armed, and refuse names that are none."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from assay.domain.failures import ConfigurationError
from assay.pipeline.crash import CRASH_POINTS, CrashPoints


def test_nothing_is_armed_without_a_setting() -> None:
    for setting in (None, ""):
        points = CrashPoints(setting)
        for name in CRASH_POINTS:
            points(name)


@pytest.mark.parametrize("setting", ["after_everything", "after_call:0", "after_call:x", "after_call:-1"])
def test_a_setting_that_means_nothing_is_refused(setting: str) -> None:
    with pytest.raises(ConfigurationError, match="ASSAY_CRASH"):
        CrashPoints(setting)


def test_the_armed_point_kills_at_its_count_and_other_points_do_not() -> None:
    program = (
        "from assay.pipeline.crash import CrashPoints\n"
        "points = CrashPoints('after_call:3')\n"
        "for number in range(1, 5):\n"
        "    points('before_call')\n"
        "    points('after_call')\n"
        "    print(number, flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["1", "2"]
