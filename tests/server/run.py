# SPDX-License-Identifier: Apache-2.0
"""pytest over this folder; the last line is the count that tests/run-tests reads."""
import pathlib
import sys

import pytest


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self.skipped += 1
            print(f"\nskip {report.nodeid.split('/')[-1]}: {report.longrepr[2]}")
        elif report.failed:
            self.failed += 1
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report):
        self.failed += report.failed


def main():
    count = Count()
    here = str(pathlib.Path(__file__).parent)
    status = pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", here, "--tb=short", "--durations=8",
                          *(sys.argv[1:] or [here])], plugins=[count])
    failed = max(count.failed, int(status not in (0, 1)))
    sys.stdout.flush()
    print(f"RESULT passed={count.passed} failed={failed} skipped={count.skipped}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
