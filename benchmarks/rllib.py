"""Speed and learning of RLlib's PPO with our memories on our environments; prints one line of JSON per run.

python benchmarks/rllib.py [--memory GRU LSTM] [--task RepeatPrevious-easy] [--seeds 0] [--steps N] [--until R]
                           [--num-envs 64] [--python PYTHON] [--smoke]

PYTHON is an interpreter that can import ray (`make rllib` makes .venv-recipes); without one the benchmark prints a
message and exits.
One thread. CPU seconds are those of the process that samples and learns, without the start of Ray and its servers.
`until`: stop when the mean return of recent episodes is higher (RLlib's mean over 100 episodes).
"""

import argparse, json, logging, os, subprocess, sys, time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / '.venv-recipes' / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
FAST = dict(num_epochs=4, lr=2e-3, gamma=0.99, lambda_=0.95, clip_param=0.2, grad_clip=0.5, vf_loss_coeff=0.5)


def ppo_config(task: str, memory: str, width: int = 64, num_envs: int = 64, seed: int = 0, max_seq_len: int = 52):
    "PPO of RLlib on one of our tasks, with our batching, and settings with which it learns in minutes"
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
    result = algo.train()['env_runners']
    first_steps = result['num_env_steps_sampled_lifetime']
    start_wall, start_cpu = time.perf_counter(), time.process_time()
    curve = []
    while result['num_env_steps_sampled_lifetime'] < steps:
        result = algo.train()['env_runners']
        step = int(result['num_env_steps_sampled_lifetime'])
        curve.append((step, round(float(result.get('episode_return_mean', 'nan')), 4)))
        if until is not None and curve[-1][1] > until:
            break
    wall, cpu = time.perf_counter() - start_wall, time.process_time() - start_cpu
    n = result['num_env_steps_sampled_lifetime'] - first_steps
    algo.stop()
    rates = dict(steps_per_cpu_second=round(n / cpu, 1), steps_per_second=round(n / wall, 1)) if n else {}
    return dict(steps=int(n), cpu_seconds=round(cpu, 2), wall_seconds=round(wall, 2), **rates, curve=curve)


def rllib_speed(
    memory='LSTM', task='RepeatPrevious-easy', *, steps=60_000, until=None, seed=0, num_envs=64, python=PYTHON
):
    """Run PPO of RLlib in an interpreter that can import it.

    Returns a dict: memory, task, seed, steps, cpu_seconds, wall_seconds, steps_per_cpu_second, steps_per_second, curve
    of (steps, mean return); None if the interpreter or RLlib is missing.
    """
    if not Path(python).exists():
        return None
    env = os.environ | dict(OMP_NUM_THREADS='1', PYTHONPATH=str(ROOT))
    options = ['--memory', memory, '--task', task, '--seeds', str(seed), '--steps', str(steps)]
    options += ['--num-envs', str(num_envs), '--here']
    if until is not None:
        options += ['--until', str(until)]
    process = subprocess.run([python, __file__, *options], env=env, capture_output=True, text=True, timeout=3600)
    lines = [line for line in process.stdout.splitlines() if line.startswith('{')]
    if process.returncode or not lines:
        raise RuntimeError(f"RLlib did not learn: {process.stderr[-2000:]}")
    return json.loads(lines[-1])


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument('--memory', nargs='+', default=['GRU', 'LSTM'])
    parser.add_argument('--task', default='RepeatPrevious-easy')
    parser.add_argument('--seeds', nargs='+', type=int, default=[0])
    parser.add_argument('--steps', type=int, default=60_000)
    parser.add_argument('--until', type=float)
    parser.add_argument('--num-envs', type=int, default=64)
    parser.add_argument('--python', default=sys.executable if find_spec('ray') else PYTHON)
    parser.add_argument('--here', action='store_true', help='run in this interpreter')
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.memory, args.steps, args.num_envs = ['GRU'], 1, 2
    return args


def main(args):
    for seed in args.seeds:
        for memory in args.memory:
            settings = dict(steps=args.steps, until=args.until, seed=seed, num_envs=args.num_envs)
            if not args.here:
                result = rllib_speed(memory, args.task, python=args.python, **settings)
                missing = 'RLlib is not installed: `make rllib` installs it into .venv-recipes'
                print(json.dumps(result) if result else missing, flush=True)
                continue
            import torch

            from srlviz.agents.rllib import start_ray

            logging.disable(logging.WARNING)
            torch.set_num_threads(1)
            start_ray(num_cpus=1)
            config = ppo_config(args.task, memory, num_envs=args.num_envs, seed=seed)
            run = dict(memory=memory, task=args.task, seed=seed, num_envs=args.num_envs)
            print(json.dumps(run | measure(config, args.steps, args.until)), flush=True)


if __name__ == '__main__':
    main(arguments())
