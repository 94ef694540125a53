"""What waits for a GPU, in pieces that resume: each call works for at most --seconds, and prints what is there.

    python3 benchmarks/measure_gpu.py --out OUT              the next pieces, until the time is up
    python3 benchmarks/measure_gpu.py --out OUT --smallest   smallest sizes, also on a CPU: whether all of it works

steps    frames and windows per second in the training of encoders
ppo      recurrent PPO with a GRU on the CPU and on the device: steps per second, and (preset `fast`) the return of both
st_dim   ST-DIM at the paper's size on Pong (100,000 frames, at most 100 epochs), and probes of 50,000 frames
paper    one trial of the preset `paper` of the study popgym_mmer: 15 million steps

It needs no network and no installation of srlviz: Python 3.11 or newer with torch, and the packages of `NEEDED`, which
can be carried as wheels. Each finished piece is a file in OUT, and OUT/gpu.csv has all figures, with the name of the
card; those of the smallest sizes are in OUT/smallest. Of a piece that was stopped, `st_dim` and `paper` resume from a
checkpoint, `ppo` after its last whole training, and `steps` begins again; --out must stay the same.
"""

import argparse, json, subprocess, sys, time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = {  # module -> distribution
    'torch': 'torch',
    'numpy': 'numpy',
    'pandas': 'pandas',
    'pyarrow': 'pyarrow',
    'scipy': 'scipy',
    'sklearn': 'scikit-learn',
    'numba': 'numba',
    'joblib': 'joblib',
    'cloudpickle': 'cloudpickle',
    'safetensors': 'safetensors',
    'filelock': 'filelock',
    'tqdm': 'tqdm',
    'gymnasium': 'gymnasium farama-notifications',
    'ale_py': 'ale-py',
}
PIECES = ('steps', 'ppo', 'st_dim', 'paper')


def check_packages() -> None:
    "End in one sentence if a package is missing"
    missing = [wheels for module, wheels in NEEDED.items() if find_spec(module) is None]
    if missing:
        version = f'{sys.version_info[0]}.{sys.version_info[1]}'
        raise SystemExit(f'measure_gpu.py needs the wheels of {" ".join(missing)} for Python {version} on its path')


def steps(out: Path, device: str, small: bool) -> list[tuple]:
    "Encoders of frames on Pong, and of sensors on made-up rows as wide as those of the landing data"
    import numpy as np

    from srlviz.core.recordings import Episode, Recording
    from srlviz.data.atari import record_atari
    from srlviz.studies.methods import find_method

    found = []
    frames = record_atari('pong', 600 if small else 8000, seed=0, progress=False)
    for name in ('st_dim', 'cpc', 'pixel_pred', 'vae', 'supervised'):
        encoder = find_method(name).make(quick=small, epochs=2, device=device, progress=False)
        seconds = encoder.fit(frames).history_['seconds'].iloc[-1]
        found.append(('steps', name, frames.n_steps / seconds, 'frames/s'))
    rng = np.random.default_rng(0)
    n, width = (4, 40) if small else (64, 1090)
    rows = [rng.normal(size=(200, width)).astype(np.float32).cumsum(0) / 10 for _ in range(n)]
    sensors = Recording([Episode(dict(sensors=x)) for x in rows], name='made up')
    for name in ('lstm_ae_1layer', 'ts_regr_attention_t1', 'masked_autoencoder'):
        encoder = find_method(name).make(n_codes=64, epochs=2, windows=4, device=device, progress=False)
        seconds = encoder.fit(sensors).history_['seconds'].iloc[-1]
        found.append(('steps', name, 4 * n / seconds, 'windows/s'))
    return found


def ppo(out: Path, device: str, small: bool) -> list[tuple]:
    "The same training on the CPU and on the device: its speed without the first updates, and what is learned"
    import numpy as np

    from srlviz.agents.recurrent_ppo import recurrent_ppo

    def run(where: str, preset: str, seed: int, total_steps: int) -> dict:
        "Steps per second and last return of a training; kept in OUT/ppo"
        file = out / 'ppo' / f'{preset}-{where}-{seed}.json'
        if not file.exists():
            learner = recurrent_ppo(
                'RepeatPrevious-easy', 'GRU', preset, device=where, seed=seed, total_steps=total_steps
            )
            history = learner.learn(progress=False).history_
            late = history.iloc[len(history) // 3 :]
            speed = np.diff(late['steps']).sum() / late['seconds'].iloc[1:].sum() if len(late) > 1 else np.nan
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(dict(speed=float(speed), last=float(history['mean_return'].iloc[-1]))))
        return json.loads(file.read_text())

    found = []
    for where in dict.fromkeys(('cpu', device)):
        runs = [run(where, 'fast', seed, 20_000 if small else 600_000) for seed in range(1 if small else 3)]
        found.append(('ppo', f'fast, {where}', float(np.median([r['speed'] for r in runs])), 'steps/s'))
        found.append(
            ('ppo', f'fast, {where}: return, mean of seeds', float(np.mean([r['last'] for r in runs])), 'return')
        )
        if not small:  # at this speed too short to learn: the piece `paper` does
            found.append(('ppo', f'paper, {where}', run(where, 'paper', 0, 200_000)['speed'], 'steps/s'))
    return found


def st_dim(out: Path, device: str, small: bool) -> list[tuple]:
    "ST-DIM and a random CNN on Pong, with raw and standardized probes"
    from srlviz.core.recordings import align
    from srlviz.data.atari import drop_duplicates, prune_factors, record_atari, split_episodes
    from srlviz.encoders.baselines import RandomCNN
    from srlviz.encoders.frames.contrast import STDIM
    from srlviz.evaluate.probe import linear_probe

    sizes = (600, 1200) if small else (100_000, 50_000)
    started = time.monotonic()
    fit, probe = (record_atari('pong', n, seed=seed, progress=False) for n, seed in zip(sizes, (0, 1000)))
    fit = split_episodes(fit, 0, fit=0.8, valid=0.2)
    probe = drop_duplicates(prune_factors(split_episodes(probe, 0, probe=0.7, valid=0.1, test=0.2)))
    found = [('st_dim', 'recording', time.monotonic() - started, 's')]
    options = dict(shrink=2, n_codes=32) if small else {}
    epochs = 1 if small else 100
    encoder = STDIM(epochs=epochs, device=device, checkpoint=out / 'st_dim.pt', progress=False, **options).fit(fit)
    found.append(('st_dim', f'training, {len(encoder.history_)} epochs', encoder.history_['seconds'].sum(), 's'))
    encoder.save(out / 'st_dim.safetensors')
    started = time.monotonic()
    for name, e in dict(st_dim=encoder, random_cnn=RandomCNN(device=device, **options).fit(fit)).items():
        codes, factors = align(e.encode(probe, progress=False), probe)
        for norm in ('none', 'standardize'):
            result = linear_probe(codes, factors, norm=norm, epochs=2 if small else 100, progress=False)
            rows = result.scores(study='atari', task='pong', method=name)
            rows = rows[(rows['group'] == 'all') & (rows['target'] == 'mean') & (rows['metric'] == 'f1')]
            found.append(('st_dim', f'{name}, {norm}', float(rows['value'].iloc[0]), 'F1'))
    found.append(('st_dim', 'codes and probes', time.monotonic() - started, 's'))
    return found


def paper(out: Path, device: str, small: bool) -> list[tuple]:
    "A trial of the study popgym_mmer with the paper's sizes"
    from srlviz.studies.papers.mmer_trial import mmer_trial

    folder = out / 'paper'
    folder.mkdir(parents=True, exist_ok=True)
    changed = dict(preset='fast', budget=20_000) if small else dict(preset='paper')
    rows = mmer_trial('RepeatPrevious-easy', 'GRU', device=device, out=str(folder), **changed)
    values = {row['metric']: row['value'] for row in rows if row['metric'] in ('mmer', 'seconds')}
    units = dict(mmer='return', seconds='s')
    return [('paper', f'RepeatPrevious-easy, GRU: {metric}', value, units[metric]) for metric, value in values.items()]


def card(device: str) -> str:
    "The name of the device"
    import torch

    return torch.cuda.get_device_name() if device.startswith('cuda') else 'CPU'


def write_table(out: Path) -> None:
    "Collect the finished pieces in OUT/gpu.csv, and print them"
    import pandas as pd

    pieces = [
        json.loads(path.read_text(encoding='utf-8')) for name in PIECES if (path := out / f'{name}.json').exists()
    ]
    rows = [(*row, piece['card'], piece['torch']) for piece in pieces for row in piece['figures']]
    table = pd.DataFrame(rows, columns=['piece', 'what', 'value', 'unit', 'card', 'torch'])
    table.to_csv(out / 'gpu.csv', index=False, float_format='%.5g')
    print(table.to_string(index=False) if len(table) else 'no piece is finished')


def run_piece(name: str, out: Path, device: str, small: bool) -> None:
    "Measure a piece, and write its file"
    import torch

    figures = dict(steps=steps, ppo=ppo, st_dim=st_dim, paper=paper)[name](out, device, small)
    content = dict(card=card(device), torch=torch.__version__, smallest=small, figures=figures)
    (out / f'{name}.json').write_text(json.dumps(content, indent=1), encoding='utf-8')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', type=Path, default=Path('runs/gpu'))
    parser.add_argument('--device', default='', help="'cuda' by default; with --smallest, 'cpu' where there is no GPU")
    parser.add_argument('--seconds', type=int, default=540, help='of this call; what it stops resumes with the next')
    parser.add_argument('--smallest', action='store_true')
    parser.add_argument('--pieces', nargs='+', choices=PIECES, default=PIECES)
    parser.add_argument('--piece', choices=PIECES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    check_packages()
    sys.path.insert(0, str(ROOT))  # srlviz, without an installation
    import torch

    if args.smallest and not args.piece:
        args.out /= 'smallest'
    args.out.mkdir(parents=True, exist_ok=True)
    device = args.device or ('cuda' if torch.cuda.is_available() or not args.smallest else 'cpu')
    if device.startswith('cuda') and not torch.cuda.is_available():
        raise SystemExit('there is no GPU here; --smallest runs everything at its smallest size on the CPU')
    if args.piece:
        return run_piece(args.piece, args.out, device, args.smallest)
    end, failed = time.monotonic() + args.seconds, 0
    for name in args.pieces:
        if (args.out / f'{name}.json').exists():
            continue
        options = ['--smallest'] * args.smallest
        command = [sys.executable, __file__, '--out', args.out, '--device', device, '--piece', name, *options]
        try:
            failed += subprocess.run(command, timeout=max(1, end - time.monotonic())).returncode != 0
        except subprocess.TimeoutExpired:
            print(f'{name}: the time is up; the next call resumes it')
            break
    write_table(args.out)
    if failed:
        raise SystemExit(f'{failed} of the pieces failed')


if __name__ == '__main__':
    main()
