"""Mutations of files: of their bytes, of the content of their format, and of their path.

A mutation takes (bytes, random generator, folder `victim` of another user) and returns (bytes, description);
those of `PLACES` take a path instead of bytes and return only the description. MENUS lists the mutations of each
kind of file; case n applies number n modulo their count.
"""

from pathlib import Path

from .archives import ENCODER, FILM, NPY, NPZ, NPZ_ANSWER, NPZ_RECORDING, WEIGHTS
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
    'recording': [*_ANY, *NPZ_RECORDING, *NPZ_RECORDING, *PLACES],
    'answer': [*_ANY, *NPZ_ANSWER, *NPZ_ANSWER, *PLACES],
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
    """Apply the mutation of a case to a file; return its description."""
    menu = MENUS[kind]
    change = menu[case % len(menu)]
    if change in PLACES:
        return change(path, rng, victim)
    data, description = change(path.read_bytes(), rng, victim)
    path.write_bytes(data)
    return description
