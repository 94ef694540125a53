"""Steps per second of popgym's POMDPs and of ours, through the Gymnasium API, in one run on one core.

Actions are drawn in advance. A round measures, one after another, popgym's environment, ours, and ours batched: plain
(new arrays at each step), with the paper's one-hot inputs written by the kernel into the same array, and the same
copied. Ratios are taken within a round; medians over rounds. Start-up is timed in separate processes: the first use of
a class, which compiles it, and the second, which loads it from the cache.
"""

import argparse, os, statistics, subprocess, sys, tempfile, warnings
from pathlib import Path

import gymnasium
import numpy as np
import pandas as pd
import plotly.graph_objects as go

import srlviz.envs  # noqa: F401 - registers the tasks
from srlviz.envs.pomdp.base import TASKS, make_task, make_tasks, steps_per_second

START = """
import sys, time
import numpy, gymnasium
start = time.perf_counter()
import srlviz.envs
env = gymnasium.make('srlviz/{task}-v0')
env.reset(seed=0)
env.step(env.action_space.sample())
print(time.perf_counter() - start)
"""


def start_up(tasks: list[str]) -> pd.DataFrame:
    "Seconds from import to the first step, compiled and from the cache, which is a new folder"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks:
            run = lambda: float(
                subprocess.run(
                    [sys.executable, '-c', START.format(task=task)],
                    env={**os.environ, 'NUMBA_CACHE_DIR': folder},
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            rows.append((task, run(), statistics.median(run() for _ in range(3))))
    return pd.DataFrame(rows, columns=['task', 'first use, s', 'cached, s'])


def table(tasks: list[str], num_envs: int, seconds: float, rounds: int) -> pd.DataFrame:
    "Steps per second of each form; one row for each task and round"
    import popgym.envs

    rng, rows = np.random.default_rng(0), []
    for task in tasks:
        name, difficulty = task.split('-')
        popgym_env = getattr(popgym.envs, name + difficulty.capitalize())()
        ours = make_task(task)
        options = {'batched': {}, 'one-hot': dict(flat=True, copy=False), 'one-hot, copied': dict(flat=True)}
        envs = {k: make_tasks(task, num_envs, autoreset_mode='SameStep', **o) for k, o in options.items()}
        ours.action_space.seed(0)
        actions = [ours.action_space.sample() for _ in range(2000)]
        if isinstance(ours.action_space, gymnasium.spaces.Discrete):
            actions = [int(a) for a in actions]
        batches = [np.stack([actions[i] for i in rng.integers(0, 2000, num_envs)]) for _ in range(16)]
        for e in envs.values():
            e.reset(seed=0)
            for a in batches:
                e.step(a)
        steps_per_second(ours, actions, seconds / 10)
        for _ in range(rounds):
            row = {'task': task, 'popgym': steps_per_second(popgym_env, actions, seconds)}
            row['single'] = steps_per_second(ours, actions, seconds)
            rows.append(row | {k: steps_per_second(e, batches, seconds) for k, e in envs.items()})
        print(
            f"{task:34} popgym {rows[-1]['popgym'] / 1e3:6.0f} k/s  "
            + '  '.join(f"{k} {rows[-1][k] / rows[-1]['popgym']:.4g}x" for k in ('single', *options)),
            flush=True,
        )
    return pd.DataFrame(rows)


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    "Median speed and median ratio to popgym in the same round, one row per task"
    ours = [c for c in rows if c not in ('task', 'popgym')]
    ratio = rows[ours].div(rows['popgym'], axis=0).assign(task=rows['task']).groupby('task', sort=False).median()
    return rows.groupby('task', sort=False).median().join(ratio, rsuffix=' x')


def figure(summary: pd.DataFrame) -> go.Figure:
    "Steps per second, one row per task"
    marks = {
        'popgym': ('#8c8c8c', 'popgym'),
        'single': ('#0072B2', 'srlviz, one'),
        'batched': ('#009E73', 'srlviz, batched'),
        'one-hot': ('#D55E00', "srlviz, batched, the paper's one-hot stack"),
    }
    fig = go.Figure(
        [
            go.Scatter(x=summary[k], y=summary.index, mode='markers', name=label, marker=dict(color=color, size=8))
            for k, (color, label) in marks.items()
        ]
    )
    return fig.update_layout(
        template='plotly_white',
        height=1000,
        width=1000,
        xaxis=dict(type='log', title='steps a second, one core'),
        yaxis=dict(autorange='reversed'),
        legend=dict(orientation='h', y=1.03),
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tasks', nargs='*', help='such as RepeatPrevious-hard; all by default')
    parser.add_argument('--num-envs', type=int, default=1024)
    parser.add_argument('--seconds', type=float, default=0.2, help='for each measurement')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--out', type=Path, default=Path('runs/bench_envs'), help='folder of the table and the plot')
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.tasks, args.num_envs, args.seconds, args.rounds = ['RepeatPrevious-hard'], 2, 0.01, 1
    warnings.simplefilter('ignore')
    tasks = args.tasks or [t for t, (cls, _) in TASKS.items() if t.startswith(cls.__name__)]
    summary = ratios(table(tasks, args.num_envs, args.seconds, args.rounds))
    args.out.mkdir(parents=True, exist_ok=True)
    summary.to_csv(args.out / 'envs.csv')
    figure(summary).write_html(args.out / 'envs.html', include_plotlyjs=True)
    for kind in ('single', 'batched', 'one-hot', 'one-hot, copied'):
        x = summary[f'{kind} x']
        print(
            f"{kind}: {np.exp(np.log(x).mean()):.4g}x popgym in the geometric mean of {len(x)} tasks; minimum "
            f"{x.min():.4g}x ({x.idxmin()}), maximum {x.max():.4g}x ({x.idxmax()})"
        )
    starts = start_up([t for t in tasks if t.endswith('-hard')] or tasks)
    print(
        f"start-up of one environment, import and numba included: first use {starts['first use, s'].median():.2f} "
        f"s (at most {starts['first use, s'].max():.2f}), cached {starts['cached, s'].median():.2f} s (at most "
        f"{starts['cached, s'].max():.2f})"
    )
    print(f"table and plot: {args.out}/envs.csv, envs.html")
