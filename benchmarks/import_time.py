"""`import srlviz`: wall seconds in a fresh interpreter, median of 9."""

import statistics
import subprocess
import sys
import time


def once() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, '-c', 'import srlviz'], check=True)
    return time.perf_counter() - start


if __name__ == '__main__':
    print(f"import srlviz, interpreter included: {statistics.median(once() for _ in range(9)):.3f} s")
