"""CPU time of a whole game from the emulator to the table, its growth with the number of frames, and memory.

Random frames are recorded, encoded by RandomCNN, and all variables probed, raw and standardised, and with the majority
class. Each size runs in a separate process, recording included, and is measured with its children: CPU seconds, the
largest private memory (frames mapped from disk can be dropped by the system), and the largest resident set.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path


def memory() -> tuple[float, float]:
    "Anonymous and resident memory of this process now, in GB"
    lines = dict(
        line.split(':', 1)
        for line in Path('/proc/self/status').read_text().splitlines()
        if line.startswith('Rss') or line.startswith('VmRSS')
    )
    return int(lines['RssAnon'].split()[0]) / 1e6, int(lines['VmRSS'].split()[0]) / 1e6


def measure(game: str, frames: int, epochs: int) -> dict:
    "Record, encode and probe a game; return costs and scores. For a new process"
    from srlviz.studies.papers.probed_games import probe_games
    from srlviz.studies.papers.probing import record_game

    peak, done = [0.0, 0.0], threading.Event()

    def watch():
        while not done.wait(0.05):
            peak[:] = map(max, peak, memory())

    if sys.platform == 'linux':
        threading.Thread(target=watch, daemon=True).start()

    def cpu():
        return sum(
            r.ru_utime + r.ru_stime for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        )

    start, wall = cpu(), time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        _, probe = record_game(game, 2000, frames, out=out, n_jobs=1, progress=False)
        recording_seconds = cpu() - start
        results = probe_games(
            [game],
            ['majority', 'random_cnn'],
            out=out,
            encoder_frames=2000,
            probe_frames=frames,
            probing=dict(epochs=epochs),
            progress=False,
        )
    done.set()
    scores = results.scores.query("metric == 'f1' and group == 'all'").set_index('method')['value'].round(3).to_dict()
    return dict(
        cpu=cpu() - start,
        recorded=recording_seconds,
        methods={m: a['cpu_seconds'] for m, a in results.about[game]['methods'].items()},
        wall=time.perf_counter() - wall,
        anonymous=peak[0],
        resident=peak[1],
        variables=len(probe.factors),
        scores=scores,
    )


def main(game: str, sizes: list[int], epochs: int):
    for frames in sizes:
        costs = json.loads(
            subprocess.run(
                [sys.executable, __file__, '--game', game, '--epochs', str(epochs), '--one', str(frames)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines()[-1]
        )
        print(
            f"{game}, {frames:,} frames, {costs['variables']} variables, probes of at most {epochs} epochs: "
            f"{costs['cpu'] / 60:.2f} CPU-minutes (recording, splits, duplicates {costs['recorded']:.0f} s; "
            f"{', '.join(f'{m} {s:.0f} s' for m, s in costs['methods'].items())}), "
            f"{costs['cpu'] / frames * 1e3:.2f} ms a frame, private memory {costs['anonymous']:.2f} GB, "
            f"{costs['resident']:.2f} GB with mapped frames; {costs['scores']}",
            flush=True,
        )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--game', default='seaquest')
    parser.add_argument('--frames', type=int, nargs='*', default=[24_000])
    parser.add_argument('--epochs', type=int, default=100)
    parser.add_argument('--one', type=int, help=argparse.SUPPRESS)
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.game, args.frames, args.epochs = 'pong', [900], 1
    if args.one:
        print(json.dumps(measure(args.game, args.one, args.epochs)))
    else:
        main(args.game, args.frames, args.epochs)
