"""Mutations of files: of their bytes, of what their format holds, and of the place where they lie.

A change takes (bytes, generator, folder of a stranger) and gives (bytes, what was done in words);
those of `PLACES` take the path instead. MENUS says which changes a kind of file undergoes; case n takes
the n-th, and again from the start.
"""

from pathlib import Path

from .archives import ENCODER, FILM, NPY, NPZ, NPZ_HEAD, NPZ_TOLD, WEIGHTS
from .media import notebook_output, notebook_source, picture, video
from .raw import PLACES, RAW, foreign
from .tables import PARQUET
from .texts import CSV, JSON

_ANY = [*RAW, *[foreign] * 8]
MENUS = {
    'json': [*_ANY, *JSON, *JSON, *PLACES],
    'csv': [*_ANY, *CSV, *CSV, *PLACES],
    'parquet': [*_ANY, *PARQUET, *PARQUET, *PLACES],
    'npz': [*_ANY, *NPZ, *NPZ, *PLACES],
    'recording': [*_ANY, *NPZ_HEAD, *NPZ_HEAD, *PLACES],
    'answer': [*_ANY, *NPZ_TOLD, *NPZ_TOLD, *PLACES],
    'film': [*_ANY, *FILM, *FILM, *PLACES],
    'npy': [*_ANY, *NPY, *NPY, *PLACES],
    'encoder': [*_ANY, *ENCODER, *ENCODER, *PLACES],
    'weights': [*_ANY, *WEIGHTS, *WEIGHTS, *PLACES],
    'jpg': [*_ANY, *[picture] * 6, *RAW, *PLACES],
    'mp4': [*_ANY, *[video] * 14, *RAW, *PLACES],
    'notebook': [*_ANY, *JSON, *JSON, *[notebook_source, notebook_output] * 5, *PLACES],
    'text': [*_ANY, *PLACES],
}


def apply(kind: str, case: int, path: Path, rng, victim: Path) -> str:
    """Change a file as its case asks for; give what was done in words."""
    menu = MENUS[kind]
    change = menu[case % len(menu)]
    if change in PLACES:
        return change(path, rng, victim)
    data, said = change(path.read_bytes(), rng, victim)
    path.write_bytes(data)
    return said
