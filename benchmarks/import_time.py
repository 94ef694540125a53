"""Wall seconds of `import srlviz` in a fresh interpreter, median of 9."""

import argparse
import statistics
import subprocess
import sys
import time


def import_seconds() -> float:
    "Wall seconds of one import"
    start = time.perf_counter()
    subprocess.run([sys.executable, '-c', 'import srlviz'], check=True)
    return time.perf_counter() - start


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    runs = 1 if parser.parse_args().smoke else 9
    print(f"import srlviz, interpreter included: {statistics.median(import_seconds() for _ in range(runs)):.3f} s")
