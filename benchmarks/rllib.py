"""Speed and learning of RLlib's PPO with our memories on our environments: JSON, one line per run.

python benchmarks/rllib.py [--memory GRU LSTM] [--task RepeatPrevious-easy] [--seeds 0] [--steps N] [--until R]
                           [--num-envs 64] [--python PYTHON] [--smoke]

PYTHON is an interpreter that can import ray (`make rllib` makes .venv-recipes); without one the benchmark prints a
message and ends.
One thread. CPU seconds are those of the process that samples and learns, without the start of Ray and its servers.
`until`: stop when the mean return of recent episodes is higher (RLlib's mean over 100 episodes).
"""

import argparse, json, logging, os, subprocess, sys, time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / '.venv-recipes' / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
FAST = dict(num_epochs=4, lr=2e-3, gamma=0.99, lambda_=0.95, clip_param=0.2, grad_clip=0.5, vf_loss_coeff=0.5)


def ppo_config(task: str, memory: str, width: int = 64, num_envs: int = 64, seed: int = 0, max_seq_len: int = 52):
    "PPO of RLlib on a task of ours, with our batching, and settings with which it learns in minutes"
    import gymnasium as gym
    from ray.rllib.algorithms.ppo import PPOConfig

    from srlviz.agents.rllib import memory_module

    config = PPOConfig().environment(f'srlviz.envs:srlviz/{task}-v0', env_config=dict(flat=True))
    batched = dict(num_envs_per_env_runner=num_envs, gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT)
    config.env_runners(num_env_runners=0, **batched).debugging(seed=seed, log_level='ERROR')
    config.rl_module(**memory_module(memory, width=width, n_hidden=width, max_seq_len=max_seq_len))
    return config.training(
        train_batch_size_per_learner=128 * num_envs, minibatch_size=32 * num_envs, use_kl_loss=False, **FAST
    )


def measure(config, steps: int, until: float | None = None) -> dict:
    "Train; the first iteration is not timed unless it is the only one"
    algo = config.build_algo()
    start = said = algo.train()['env_runners']
    t, cpu, begun = time.perf_counter(), time.process_time(), start['num_env_steps_sampled_lifetime']
    curve = []
    while said['num_env_steps_sampled_lifetime'] < steps:
        said = algo.train()['env_runners']
        now = int(said['num_env_steps_sampled_lifetime'])
        curve.append((now, round(float(said.get('episode_return_mean', 'nan')), 4)))
        if until is not None and curve[-1][1] > until:
            break
    wall, spent, n = time.perf_counter() - t, time.process_time() - cpu, said['num_env_steps_sampled_lifetime'] - begun
    algo.stop()
    per = dict(steps_per_cpu_second=round(n / spent, 1), steps_per_second=round(n / wall, 1)) if n else {}
    return dict(steps=int(n), cpu_seconds=round(spent, 2), wall_seconds=round(wall, 2), **per, curve=curve)


def rllib_speed(
    memory='LSTM', task='RepeatPrevious-easy', *, steps=60_000, until=None, seed=0, num_envs=64, python=PLACE
):
    """Run PPO of RLlib in an interpreter that has it.

    Returns a dict: memory, task, seed, steps, cpu_seconds, wall_seconds, steps_per_cpu_second, steps_per_second, curve
    of (steps, mean return); None if the interpreter or RLlib is missing.
    """
    if not Path(python).exists():
        return None
    env = os.environ | dict(OMP_NUM_THREADS='1', PYTHONPATH=str(ROOT))
    asked = ['--memory', memory, '--task', task, '--seeds', str(seed), '--steps', str(steps)]
    asked += ['--num-envs', str(num_envs), *(['--until', str(until)] if until is not None else []), '--here']
    told = subprocess.run([python, __file__, *asked], env=env, capture_output=True, text=True, timeout=3600)
    lines = [line for line in told.stdout.splitlines() if line.startswith('{')]
    if told.returncode or not lines:
        raise RuntimeError(f"RLlib did not learn: {told.stderr[-2000:]}")
    return json.loads(lines[-1])


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument('--memory', nargs='+', default=['GRU', 'LSTM'])
    p.add_argument('--task', default='RepeatPrevious-easy')
    p.add_argument('--seeds', nargs='+', type=int, default=[0])
    p.add_argument('--steps', type=int, default=60_000)
    p.add_argument('--until', type=float)
    p.add_argument('--num-envs', type=int, default=64)
    p.add_argument('--python', default=sys.executable if find_spec('ray') else PLACE)
    p.add_argument('--here', action='store_true', help='in this interpreter')
    p.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    a = p.parse_args()
    if a.smoke:
        a.memory, a.steps, a.num_envs = ['GRU'], 1, 2
    return a


def main(a):
    for seed in a.seeds:
        for memory in a.memory:
            about = dict(steps=a.steps, until=a.until, seed=seed, num_envs=a.num_envs)
            if not a.here:
                said = rllib_speed(memory, a.task, python=a.python, **about)
                print(
                    json.dumps(said) if said else 'RLlib is not there: `make rllib` puts it into .venv-recipes',
                    flush=True,
                )
                continue
            import torch

            from srlviz.agents.rllib import start_ray

            logging.disable(logging.WARNING)
            torch.set_num_threads(1)
            start_ray(num_cpus=1)
            config = ppo_config(a.task, memory, num_envs=a.num_envs, seed=seed)
            said = dict(memory=memory, task=a.task, seed=seed, num_envs=a.num_envs)
            print(json.dumps(said | measure(config, a.steps, a.until)), flush=True)


if __name__ == '__main__':
    main(arguments())
