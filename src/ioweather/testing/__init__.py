"""Checks that any source, study or question must pass, ours and those of other packages.

Call them from a test. Each raises `ChecksFailed`, an AssertionError that lists everything found:

    from ioweather.testing import check_source
    from my_package import SOURCE

    def test_source(tmp_path):
        check_source(SOURCE, [write_sample(tmp_path)])
"""

from ioweather.testing.source_checks import ChecksFailed, check_source
from ioweather.testing.study_checks import check_question, check_study, data_for

__all__ = ["ChecksFailed", "check_question", "check_source", "check_study", "data_for"]
