"""Record, split, prune, encode and probe: seconds and peak memory against the number of frames.

    python benchmarks/measure_scale.py 25000 50000 100000

Each size runs in a process of its own, once in memory and once into a folder. Memory is that of the process and its workers: `anonymous` is what they
hold, `resident` counts also the pages of files that they have mapped, which the system takes back when it needs them.
"""
import os, subprocess, sys, tempfile, threading, time
from pathlib import Path


def family(pid: int) -> list[int]:
    "A process and its descendants"
    parents = {}
    for p in Path('/proc').glob('[0-9]*'):
        try: parents[int(p.name)] = int((p/'stat').read_text().rsplit(')', 1)[1].split()[1])
        except OSError: pass
    found = [pid]
    for p in found: found += [c for c, parent in parents.items() if parent == p]
    return found

def memory(pids) -> tuple[float, float]:
    "(anonymous, resident) GB"
    total = [0, 0]
    for pid in pids:
        try: lines = dict(line.split(':', 1) for line in Path(f'/proc/{pid}/status').read_text().splitlines())
        except OSError: continue
        for i, k in enumerate(('RssAnon', 'VmRSS')): total[i] += int(lines.get(k, '0 kB').split()[0])
    return total[0]/1e6, total[1]/1e6

class Watch:
    "Peak memory of this process and its workers"
    def __enter__(self): self.peak, self.going = [0., 0.], True; self.thread = threading.Thread(target=self.run); self.thread.start(); return self
    def __exit__(self, *_): self.going = False; self.thread.join()
    def run(self):
        while self.going: self.peak = [max(a, b) for a, b in zip(self.peak, memory(family(os.getpid())))]; time.sleep(.2)

def one(frames: int, where: str, game: str = 'pong') -> None:
    from srlviz.core.recordings import align
    from srlviz.data.atari import drop_duplicates, prune_factors, record_atari
    from srlviz.encoders.baselines import RandomCNN
    from srlviz.evaluate.probe import linear_probe
    cpu = lambda: sum(os.times()[:2]) + sum(sum(map(float, Path(f'/proc/{p}/stat').read_text().rsplit(')', 1)[1].split()[11:13]))/os.sysconf('SC_CLK_TCK') for p in family(os.getpid())[1:])
    with tempfile.TemporaryDirectory() as d, Watch() as watch:
        at, began, told = time.perf_counter(), cpu(), []
        def lap(name):
            nonlocal at, began
            now, used = time.perf_counter(), cpu()
            told.append(f'{name} {now - at:.0f} s ({used - began:.0f} CPU-s)'); at, began = now, used
        recording = record_atari(game, frames, out=Path(d)/'r' if where == 'folder' else None, progress=False); lap('record')
        recording = drop_duplicates(prune_factors(recording.with_split(0, probe=.7, valid=.1, test=.2))); lap('prepare')
        codes = RandomCNN(shrink=2).fit(recording).encode(recording, progress=False); lap('encode')
        linear_probe(*align(codes, recording), norm='standardize', epochs=2, progress=False); lap('probe, 2 epochs')
    print(f"{game} {frames:>7,} frames in {where:6}: {', '.join(told)}; peak {watch.peak[0]:.2f} GB anonymous, {watch.peak[1]:.2f} GB resident", flush=True)

if __name__ == '__main__':
    if len(sys.argv) == 3 and sys.argv[2] in ('memory', 'folder'): one(int(sys.argv[1]), sys.argv[2])
    else:
        for frames in sys.argv[1:] or ['25000', '50000', '100000']:
            for where in 'folder', 'memory': subprocess.run([sys.executable, __file__, frames, where], check=True)
