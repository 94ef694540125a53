"""Environment steps per second of `record_atari` (RAM included) and of Gymnasium's AtariPreprocessing with getRAM.

    python benchmarks/collector.py [game] [--steps 8000] [--rounds 7] [--smoke]

A step is four emulator frames at 210 x 160 gray. The runs are interleaved. The target is 1.5x in the median of the
ratios of neighbouring rounds. Ours uses all available cores, Gymnasium one process; ours in one process is printed too,
and so is AtariVectorEnv, which does less work: it returns no RAM.

Then the CPU time of a step in one process, and of its lower bound, four frames of emulation alone. The difference: two
gray screens (27 us; about 10 once a process has played 10,000 steps), writing a frame to the file (15 to 20 us in the
kernel), their maximum, Python, and cache misses of the emulator.
"""

import argparse, statistics, time
import ale_py, gymnasium, numpy as np
from gymnasium.wrappers import AtariPreprocessing
from srlviz.data.atari import record_atari
from srlviz.envs.atari import RawAtari, gym_id, rom_name

BAR = 1.5


def steps_per_second(function, steps):
    start = time.perf_counter()
    function(steps)
    return steps / (time.perf_counter() - start)


def run_gymnasium(game, steps):
    "Record with Gymnasium: frames, RAM, actions and rewards into preallocated arrays"
    env = AtariPreprocessing(
        gymnasium.make(gym_id(game, frameskip=False)),
        screen_size=(160, 210),
        grayscale_obs=True,
        terminal_on_life_loss=True,
    )
    frames, rams = np.empty((steps, 210, 160), np.uint8), np.empty((steps, 128), np.uint8)
    actions, rewards = np.empty(steps, np.int64), np.empty(steps, np.float32)
    rng, (obs, _) = np.random.default_rng(0), env.reset(seed=0)
    for t in range(steps):
        frames[t], rams[t], actions[t] = obs, env.unwrapped.ale.getRAM(), rng.integers(env.action_space.n)
        obs, rewards[t], terminated, truncated, _ = env.step(int(actions[t]))
        if terminated or truncated:
            obs, _ = env.reset()


def run_vector(game, steps, n=8):
    "Record with AtariVectorEnv: frames only"
    env = ale_py.AtariVectorEnv(rom_name(game), n, img_height=210, img_width=160, stack_num=1, episodic_life=True)
    frames, rng = np.empty((steps // n, n, 210, 160), np.uint8), np.random.default_rng(0)
    env.reset(seed=0)
    for t in range(steps // n):
        frames[t] = env.step(rng.integers(env.single_action_space.n, size=n))[0][:, 0]


def emulation_cost(game, steps):
    "CPU microseconds of four frames of emulation, the lower bound of a step; nothing is stored"
    raw, rng = RawAtari(game), np.random.default_rng(0)
    raw.reset()
    codes, act = raw.ale.getMinimalActionSet(), raw.ale.act
    start = time.process_time()
    for a in rng.integers(len(codes), size=steps):
        for _ in range(4):
            act(codes[a])
        if raw.over:
            raw.reset()
    return (time.process_time() - start) / steps * 1e6


def print_cpu_cost(game, steps, rounds):
    "Print CPU microseconds per step: the lower bound, ours in one process, and the difference"
    floor, ours = [], []
    for _ in range(rounds):
        floor.append(emulation_cost(game, steps))
        start = time.process_time()
        record_atari(game, steps, n_jobs=1, progress=False)
        ours.append((time.process_time() - start) / steps * 1e6)
    difference = statistics.median(b - a for a, b in zip(floor, ours))
    print(
        f"{game:16s} processor time a step in one process: emulation {statistics.median(floor):.0f} us, "
        f"ours {statistics.median(ours):.0f} us, difference {difference:.0f} us"
    )


def main(game, steps, rounds):
    gymnasium.register_envs(ale_py)
    try:
        import cv2

        cv2.setNumThreads(1)
    except ImportError:
        raise SystemExit('AtariPreprocessing needs OpenCV: pip install opencv-python-headless')
    methods = {
        'srlviz': lambda n: record_atari(game, n, progress=False),
        'gymnasium': lambda n: run_gymnasium(game, n),
        'srlviz, 1 process': lambda n: record_atari(game, n, n_jobs=1, progress=False),
        'AtariVectorEnv (no RAM)': lambda n: run_vector(game, n),
    }
    for method in methods.values():
        method(min(steps, 3000))  # imports modules and starts the pool
    speeds = {k: [] for k in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            speeds[name].append(steps_per_second(method, steps))
    for name, s in speeds.items():
        ratios = [a / b for a, b in zip(s, speeds['gymnasium'])]
        print(
            f"{game:16s} {name:26s} median {statistics.median(s):7.0f} steps/s   {statistics.median(ratios):5.2f}x "
            f"gymnasium  ({min(ratios):.2f} to {max(ratios):.2f})"
        )
    print_cpu_cost(game, steps, rounds)
    return statistics.median(a / b for a, b in zip(speeds['srlviz'], speeds['gymnasium']))


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('game', nargs='?', default='pong')
    parser.add_argument('--steps', type=int, default=8000)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.steps, args.rounds = 200, 1
    ratio = main(args.game, args.steps, args.rounds)
    print(f"bar {BAR}x: {'met' if ratio >= BAR else 'MISSED'} with {ratio:.2f}x")
    raise SystemExit(ratio < BAR and not args.smoke)
