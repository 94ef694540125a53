"""PPO with a memory: time to learn, and steps per second, compared with sb3-contrib and RLlib.

    python benchmarks/ppo.py learn      CPU seconds until the last 100 episodes return more than .9, three seeds
    python benchmarks/ppo.py speed      environment steps per CPU second of training, in turn; with sb3-contrib
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
from srlviz.agents.recurrent import PRESETS, recurrent_ppo

FAST = PRESETS['fast'][0]
RACES = [  # task, memory, CPU seconds, whether more than the bar is wanted or less, the bar
    ('RepeatFirst-easy', 'GRU', 25, True, 0.9),
    ('RepeatPrevious-easy', 'GRU', 25, True, 0.9),
    ('PositionOnlyCartPole-easy', 'GRU', 25, True, 0.9),
    ('RepeatPrevious-easy', 'LSTM', 20, True, 0.9),
    ('LabyrinthExplore-easy', 'MLP', 60, True, 0.9),
    ('RepeatPrevious-easy', 'MLP', 45, False, 0.0),
    ('PositionOnlyCartPole-easy', 'MLP', 45, False, 0.75),
]


def race(task: str, memory: str, seconds: float, bar: float, seed: int) -> tuple[float, int, float]:
    """Train until the mean of the last 100 episodes is above the target, or for so many seconds.

    Returns
    -------
    CPU seconds, environment steps, and the largest mean so far
    """
    learner = recurrent_ppo(task, memory, total_steps=100_000_000, device='cpu', seed=seed)
    best, began = [-np.inf], time.process_time()

    def over(row):
        best[0] = max(best[0], row['mean_return']) if row['games'] >= 100 else best[0]
        return best[0] > bar or time.process_time() - began > seconds

    learner.learn(progress=False, until=over)
    return time.process_time() - began, int(learner.history_['steps'].iloc[-1]), best[0]


def learn(seeds: int, races=RACES):
    kept = True
    for task, memory, seconds, wanted, bar in races:
        runs = [
            race(task, memory, seconds if not wanted else 2 * seconds, bar if wanted else np.inf, s)
            for s in range(seeds)
        ]
        took, best = np.median([r[0] for r in runs]), np.median([r[2] for r in runs])
        ok = took <= seconds if wanted else best < bar
        kept &= ok
        aim = f'above {bar} within {seconds} s' if wanted else f'below {bar} after {seconds} s'
        print(
            f"{task:26} {memory:5} {aim:26} {'held' if ok else 'MISSED':7} median {took:5.1f} s, best mean {best:5.2f};"
            f" each {', '.join(f'{r[0]:.1f} s' for r in runs)}, {int(np.median([r[1] for r in runs])):,} steps",
            flush=True,
        )
    return kept


class Ours:
    def __init__(self, memory: str, task: str = 'RepeatPrevious-easy', seed: int = 0):
        self.learner = recurrent_ppo(task, memory, total_steps=100_000_000, device='cpu', seed=seed)
        self.history, self.now = [], None
        self.run(1)

    def run(self, updates: int) -> int:
        for _ in range(updates):
            before = self.history[-1] if self.history else None
            self.now, row = self.learner._update(self.now, len(self.history), before)
            self.history.append(row)
        return updates * FAST.num_envs * FAST.num_steps

    @property
    def mean(self) -> float:
        return self.history[-1]['mean_return']


# of RepeatPrevious-easy in the first update: ours counts errors of values in its units, and half of each square
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
        one = dict(lstm_hidden_size=64, net_arch=[64], shared_lstm=True, enable_critic_lstm=False)
        rows = n * FAST.num_steps // FAST.num_minibatches
        same = dict(n_steps=FAST.num_steps, batch_size=rows, n_epochs=FAST.update_epochs)
        same |= dict(learning_rate=FAST.learning_rate, gamma=FAST.gamma, gae_lambda=FAST.gae_lambda)
        same |= dict(vf_coef=FAST.vf_coef / 2 / RETURN_VARIANCE, ent_coef=FAST.ent_coef, clip_range=FAST.clip_coef)
        self.model = RecurrentPPO('MlpLstmPolicy', envs, policy_kwargs=one, device='cpu', seed=seed, **same)
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
            began = time.process_time()
            steps = trainer.run(updates if name.startswith('srlviz') else max(1, updates // 4))
            rates[name].append(steps / (time.process_time() - began))
        for memory in ('LSTM', 'GRU') if rllib else ():
            said = rllib_speed(memory, steps=25_000, python=rllib)
            rates.setdefault(f'RLlib {memory}', []).append(said['steps_per_cpu_second'])
    middle = {k: float(np.median(v)) for k, v in rates.items()}
    for name, rate in middle.items():
        peers = {p: middle[p] for p in middle if not p.startswith('srlviz')} if name.startswith('srlviz') else {}
        ratios = [np.median(np.array(rates[name]) / np.array(rates[p])) for p in peers]
        told = ', '.join(f'{r:.1f} x {p}' for r, p in zip(ratios, peers))
        print(f'{name:26} {rate:8,.0f} steps per CPU second  {told}', flush=True)


def peers(seconds: float, rllib: str | None):
    for name, make in {'srlviz LSTM': lambda: Ours('LSTM'), 'sb3-contrib LSTM': Contrib}.items():
        if make is Contrib and not find_spec('sb3_contrib'):
            continue
        began, trainer, steps = time.process_time(), make(), 0
        while trainer.mean <= 0.9 and time.process_time() - began < seconds:
            steps += trainer.run(1)
        print(
            f'{name:18} {trainer.mean:.2f} after {time.process_time() - began:.0f} CPU s, {steps:,} steps', flush=True
        )
    for memory in ('LSTM', 'GRU') if rllib else ():
        said = rllib_speed(memory, steps=1_000_000, until=0.9, python=rllib)
        took = f"{said['cpu_seconds']:.0f} CPU s, {said['steps']:,} steps"
        print(f"RLlib {memory:12} {said['curve'][-1][1]:.2f} after {took}", flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', nargs='?', default='learn', choices=('learn', 'speed', 'peers'))
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--updates', type=int, default=8, help='of ours in a round; a peer takes a quarter of them')
    parser.add_argument('--seconds', type=float, default=600, help='that a peer may take to .9')
    parser.add_argument('--rllib', help='a Python that has RLlib')
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    a = parser.parse_args()
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    if a.smoke:
        learn(1, [(task, memory, 0, wanted, bar) for task, memory, _, wanted, bar in RACES])
        speed(1, 1, None)
        peers(0, None)
        raise SystemExit
    if a.what == 'learn':
        raise SystemExit(not learn(a.seeds))
    speed(a.rounds, a.updates, a.rllib) if a.what == 'speed' else peers(a.seconds, a.rllib)
