"""Print hashes of results that a refactoring must not change.

    python benchmarks/hashes.py > before.txt      at one commit
    python benchmarks/hashes.py | diff before.txt -    at another

One Atari recording, one POMDP recording, one flight, the codes of every encoder, the weights of an agent, and the
shipped score tables. `--smoke` leaves out the flight, the encoders and the agent.
"""

import argparse
import hashlib

import numpy as np
import torch

from srlviz.core.files import sample_path
from srlviz.core.names import catalog
from srlviz.core.recordings import load_recording
from srlviz.data.atari import record_atari
from srlviz.data.popgym import record_pomdp


def digest(*arrays) -> str:
    "Hash arrays with their shapes and dtypes."
    hasher = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        hasher.update(f'{array.dtype} {array.shape}'.encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()[:16]


def hash_episodes(episodes) -> str:
    "Hash observations, actions, rewards and factors of all episodes."
    arrays = []
    for episode in episodes:
        arrays += [np.asarray(episode.obs[name]) for name in sorted(episode.obs)]
        arrays += [np.asarray(x) for x in (episode.actions, episode.rewards) if x is not None]
        factors = {name: np.asarray(episode.factors[name]) for name in sorted(episode.factors)}
        arrays += [values.astype(str) if values.dtype == object else values for values in factors.values()]
    return digest(*arrays)


def encoder_codes():
    "Fit every encoder of the catalogue that needs no arguments on small recordings; yield names and hashes of codes."
    from srlviz.data.landing import read_flights

    pong = load_recording(sample_path('pong_sample.npz'))
    flights = read_flights(sample_path('landings'))
    for name, cls in sorted(catalog('encoders').items()):
        for data, recording in (('pong', pong), ('flights', flights[:3])):
            try:
                arguments = dict(epochs=1) if 'epochs' in cls.__init__.__kwdefaults__ else {}
                codes = cls(**arguments).fit(recording).encode(recording)
            except (ValueError, KeyError, TypeError) as e:  # the encoder needs the other recording
                yield f'{name} on {data}', type(e).__name__
            else:
                yield f'{name} on {data}', digest(*codes)


def agent_weights() -> str:
    "Hash the weights of an agent after three updates."
    from srlviz.agents.recurrent_ppo import recurrent_ppo

    learner = recurrent_ppo('RepeatPrevious-easy', 'GRU', total_steps=3 * 64 * 128).learn(progress=False)
    return digest(*(p.detach().numpy() for p in learner.network.parameters()))


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--smoke', action='store_true')
    smoke = parser.parse_args().smoke
    torch.set_num_threads(1)
    print('Atari recording', hash_episodes(record_atari('pong', 400, n_streams=2, n_jobs=1, progress=False)))
    print('POMDP recording', hash_episodes(record_pomdp('RepeatPrevious-hard', 5, policy='oracle')))
    for path in sorted(sample_path('atari_scores.csv').parent.glob('*.csv')):
        print(path.name, hashlib.sha256(path.read_bytes()).hexdigest()[:16])
    if not smoke:
        from srlviz.envs.landing import fly

        print('flight', hash_episodes([fly(seed=7, camera=False)]))
        for name, hashed in encoder_codes():
            print('codes of', name, hashed)
        print('weights of an agent', agent_weights())
