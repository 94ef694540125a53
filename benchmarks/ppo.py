"""PPO with a memory: time to learn, and steps per second, compared with sb3-contrib and RLlib.

    python benchmarks/ppo.py learn      CPU seconds until the last 100 episodes return more than .9, three seeds
    python benchmarks/ppo.py speed      environment steps per CPU second of training, interleaved; with sb3-contrib
                                        if it is installed, and RLlib by --rllib PYTHON
    python benchmarks/ppo.py peers      time to .9 on RepeatPrevious-easy for sb3-contrib and RLlib

One thread, CPU seconds of the process, without start-up and compilation. The others get our environments, the same
width, batches, epochs and learning rate. On a loaded machine only ratios are meaningful.
"""

import argparse, time, warnings
from importlib.util import find_spec

import numpy as np
import torch

from rllib import rllib_speed
from srlviz.agents.recurrent_ppo import PRESETS, recurrent_ppo

FAST = PRESETS['fast'][0]
RACES = [  # task, memory, CPU seconds, whether the return must exceed the target or stay below it, target
    ('RepeatFirst-easy', 'GRU', 25, True, 0.9),
    ('RepeatPrevious-easy', 'GRU', 25, True, 0.9),
    ('PositionOnlyCartPole-easy', 'GRU', 25, True, 0.9),
    ('RepeatPrevious-easy', 'LSTM', 20, True, 0.9),
    ('LabyrinthExplore-easy', 'MLP', 60, True, 0.9),
    ('RepeatPrevious-easy', 'MLP', 45, False, 0.0),
    ('PositionOnlyCartPole-easy', 'MLP', 45, False, 0.75),
]


def race(task: str, memory: str, seconds: float, target: float, seed: int) -> tuple[float, int, float]:
    """Train until the mean of the last 100 episodes is above the target, or for so many seconds.

    Returns
    -------
    CPU seconds, environment steps, and the largest mean so far
    """
    learner = recurrent_ppo(task, memory, total_steps=100_000_000, device='cpu', seed=seed)
    best = -np.inf
    start = time.process_time()

    def is_over(row):
        nonlocal best
        if row['games'] >= 100:
            best = max(best, row['mean_return'])
        return best > target or time.process_time() - start > seconds

    learner.learn(progress=False, until=is_over)
    return time.process_time() - start, int(learner.history_['steps'].iloc[-1]), best


def learn(seeds: int, races=RACES):
    "Run all races; return whether all targets are met"
    all_met = True
    for task, memory, seconds, is_above, target in races:
        limit, stop = (2 * seconds, target) if is_above else (seconds, np.inf)
        runs = [race(task, memory, limit, stop, seed) for seed in range(seeds)]
        median, best = np.median([r[0] for r in runs]), np.median([r[2] for r in runs])
        is_met = median <= seconds if is_above else best < target
        all_met &= is_met
        goal = f'above {target} within {seconds} s' if is_above else f'below {target} after {seconds} s'
        print(
            f"{task:26} {memory:5} {goal:26} {'met' if is_met else 'MISSED':7} median {median:5.1f} s, "
            f"best mean {best:5.2f}; each {', '.join(f'{r[0]:.1f} s' for r in runs)}, "
            f"{int(np.median([r[1] for r in runs])):,} steps",
            flush=True,
        )
    return all_met


class Ours:
    def __init__(self, memory: str, task: str = 'RepeatPrevious-easy', seed: int = 0):
        self.learner = recurrent_ppo(task, memory, total_steps=100_000_000, device='cpu', seed=seed)
        self.history, self.state = [], None
        self.run(1)

    def run(self, updates: int) -> int:
        for _ in range(updates):
            previous = self.history[-1] if self.history else None
            self.state, row = self.learner._update(self.state, len(self.history), previous)
            self.history.append(row)
        return updates * FAST.num_envs * FAST.num_steps

    @property
    def mean(self) -> float:
        return self.history[-1]['mean_return']


# of RepeatPrevious-easy in the first update: our loss of values is in its units, and half of each square
RETURN_VARIANCE = 0.016


class Contrib:
    """sb3-contrib's RecurrentPPO: one LSTM of the same width, shared by actor and critic, heads of one layer.

    With `few`, 16 environments and batches of 512 rows instead of our 64 and 2,048.
    """

    def __init__(self, task: str = 'RepeatPrevious-easy', seed: int = 0, few: bool = False):
        import gymnasium, srlviz.envs  # noqa: F401, E401
        from sb3_contrib import RecurrentPPO
        from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

        make = lambda: gymnasium.make(f'srlviz/{task}-v0', flat=True)
        n = 16 if few else FAST.num_envs
        envs = VecMonitor(DummyVecEnv([make] * n))
        policy = dict(lstm_hidden_size=64, net_arch=[64], shared_lstm=True, enable_critic_lstm=False)
        rows = n * FAST.num_steps // FAST.num_minibatches
        settings = dict(n_steps=FAST.num_steps, batch_size=rows, n_epochs=FAST.update_epochs)
        settings |= dict(learning_rate=FAST.learning_rate, gamma=FAST.gamma, gae_lambda=FAST.gae_lambda)
        settings |= dict(vf_coef=FAST.vf_coef / 2 / RETURN_VARIANCE, ent_coef=FAST.ent_coef, clip_range=FAST.clip_coef)
        self.model = RecurrentPPO('MlpLstmPolicy', envs, policy_kwargs=policy, device='cpu', seed=seed, **settings)
        self.steps = n * FAST.num_steps
        self.run(1)

    def run(self, updates: int) -> int:
        self.model.learn(updates * self.steps, reset_num_timesteps=False)
        return updates * self.steps

    @property
    def mean(self) -> float:
        return float(np.mean([e['r'] for e in self.model.ep_info_buffer]))


def speed(rounds: int, updates: int, rllib: str | None):
    makers = {'srlviz LSTM': lambda: Ours('LSTM'), 'srlviz GRU': lambda: Ours('GRU')}
    if find_spec('sb3_contrib'):
        makers |= {'sb3-contrib LSTM': Contrib, 'sb3-contrib LSTM, 16 x 512': lambda: Contrib(few=True)}
    else:
        print('sb3-contrib is not installed here')
    trainers, rates = {k: make() for k, make in makers.items()}, {k: [] for k in makers}
    for _ in range(rounds):
        for name, trainer in trainers.items():
            start = time.process_time()
            steps = trainer.run(updates if name.startswith('srlviz') else max(1, updates // 4))
            rates[name].append(steps / (time.process_time() - start))
        for memory in ('LSTM', 'GRU') if rllib else ():
            result = rllib_speed(memory, steps=25_000, python=rllib)
            rates.setdefault(f'RLlib {memory}', []).append(result['steps_per_cpu_second'])
    medians = {k: float(np.median(v)) for k, v in rates.items()}
    for name, rate in medians.items():
        peers = {p: medians[p] for p in medians if not p.startswith('srlviz')} if name.startswith('srlviz') else {}
        ratios = [np.median(np.array(rates[name]) / np.array(rates[p])) for p in peers]
        text = ', '.join(f'{r:.1f} x {p}' for r, p in zip(ratios, peers))
        print(f'{name:26} {rate:8,.0f} steps per CPU second  {text}', flush=True)


def peers(seconds: float, rllib: str | None):
    for name, make in {'srlviz LSTM': lambda: Ours('LSTM'), 'sb3-contrib LSTM': Contrib}.items():
        if make is Contrib and not find_spec('sb3_contrib'):
            continue
        start = time.process_time()
        trainer, steps = make(), 0
        while trainer.mean <= 0.9 and time.process_time() - start < seconds:
            steps += trainer.run(1)
        print(
            f'{name:18} {trainer.mean:.2f} after {time.process_time() - start:.0f} CPU s, {steps:,} steps', flush=True
        )
    for memory in ('LSTM', 'GRU') if rllib else ():
        result = rllib_speed(memory, steps=1_000_000, until=0.9, python=rllib)
        cost = f"{result['cpu_seconds']:.0f} CPU s, {result['steps']:,} steps"
        print(f"RLlib {memory:12} {result['curve'][-1][1]:.2f} after {cost}", flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', nargs='?', default='learn', choices=('learn', 'speed', 'peers'))
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--updates', type=int, default=8, help='of ours per round; a peer runs a quarter of them')
    parser.add_argument('--seconds', type=float, default=600, help='limit of a peer to reach .9')
    parser.add_argument('--rllib', help='a Python interpreter with RLlib')
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    if args.smoke:
        learn(1, [(task, memory, 0, is_above, target) for task, memory, _, is_above, target in RACES])
        speed(1, 1, None)
        peers(0, None)
        raise SystemExit
    if args.what == 'learn':
        raise SystemExit(not learn(args.seeds))
    if args.what == 'speed':
        speed(args.rounds, args.updates, args.rllib)
    else:
        peers(args.seconds, args.rllib)
