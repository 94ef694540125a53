"""Tables that other packages ship go through the doors: `make recipes` installs aeon and heartpy."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import srlviz
from srlviz.core.recordings import Recording
from srlviz.data.importers import load_csv
from torch import nn

QUICK = dict(baselines=(), norms=('standardize',), progress=False)


def shipped(package: str, path: str) -> Path:
    "A file of a package, which is not imported"
    spec = find_spec(package)
    if spec is None:
        pytest.skip(f'{package} is not installed: make recipes')
    return Path(spec.submodule_search_locations[0]) / path


def long_table(path: Path, label: str) -> pd.DataFrame:
    "The cases of a .ts file as rows in time: case, dimensions, and the class of the case"
    lines = path.read_text(encoding='utf-8').lower().partition('@data\n')[2].splitlines()
    cases = []
    for i, line in enumerate(lines):
        *dimensions, word = line.split(':')
        values = np.array([dimension.split(',') for dimension in dimensions], float).T
        columns = [f'x{k}' for k in range(values.shape[1])]
        cases.append(pd.DataFrame(values, columns=columns).assign(**{'case': f'{i:03}', label: word}))
    return pd.concat(cases, ignore_index=True)


def test_motions_are_the_same_through_every_door(tmp_path):
    table = long_table(shipped('aeon', 'datasets/data/BasicMotions/BasicMotions_TRAIN.ts'), 'activity')
    roles = dict(episode='case', factors=['activity'])
    table.to_csv(tmp_path / 'motions.csv', index=False)
    table.to_csv(tmp_path / 'motions.dat', sep=';', decimal=',', index=False)
    table.to_csv(tmp_path / 'motions.gz', sep='\t', index=False, compression='gzip')
    table.to_parquet(tmp_path / 'motions')
    recording = Recording.from_table(table, **roles)
    assert len(recording) == 40 and recording.factors[0].names == ('badminton', 'running', 'standing', 'walking')
    assert [e.name for e in recording][:2] == ['000', '001']
    for name in 'motions.csv', 'motions.dat', 'motions.gz', 'motions':
        loaded = load_csv(tmp_path / name, **roles)
        assert loaded.fingerprint() == recording.fingerprint() and [e.name for e in loaded][:2] == ['000', '001']
        assert srlviz.load(tmp_path / name, **roles).fingerprint() == recording.fingerprint()
    probed = srlviz.probe({'raw': nn.Identity()}, tmp_path / 'motions.gz', **roles, **QUICK)
    assert probed.targets('f1').loc['activity'].item() > 0.4  # four classes


def test_vowels_of_unequal_length_name_their_speaker():
    table = long_table(shipped('aeon', 'datasets/data/JapaneseVowels/JapaneseVowels_TRAIN.ts'), 'speaker')
    table['speaker'] = table['speaker'].astype(int)
    columns = [k for k in table if k.startswith('x')]
    recording = Recording.from_table(table, episode='case', factors=['speaker'])
    assert (
        len(recording) == 270 and len({*recording.lengths.tolist()}) > 5 and recording.factors[0].kind == 'categorical'
    )
    speaker = table.groupby('case')['speaker'].first().to_numpy()
    arrays = Recording.from_arrays(
        {'sensors': table[columns].to_numpy()}, episode=table['case'], factors={'speaker': speaker}
    )
    assert arrays[7].obs['sensors'].tolist() == recording[7].obs['sensors'].tolist()
    probed = srlviz.probe({'raw': nn.Identity()}, table, episode='case', factors=['speaker'], **QUICK)
    assert probed.targets('f1').loc['speaker'].item() > 0.5  # nine speakers


def test_acceleration_stamped_in_milliseconds_has_64_rows_a_second():
    path = shipped('aeon', 'datasets/data/Daphnet_S06R02E0/S06R02E0.csv')
    recording = load_csv(path, time='timestamp', factors=['is_anomaly'])
    assert abs(recording.hz - 64) < 0.01 and len(recording) == 1 and len(recording.meta['columns']) == 9


def test_months_are_a_rate_and_years_are_no_sensor():
    airline = load_csv(shipped('aeon', 'datasets/data/Airline/Airline.csv'), time='Date')
    assert abs(airline.hz * 86400 * 365.25 / 12 - 1) < 0.01
    with pytest.warns(UserWarning, match="'Obs' .only counts rows or time.*'YEAR' .only counts"):
        longley = load_csv(shipped('aeon', 'datasets/data/Longley/Longley.csv'))
    assert longley.meta['columns'] == ['TOTEMP', 'GNPDEFL', 'GNP', 'UNEMP', 'ARMED', 'POP']


def test_what_is_no_table_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match='a file of ARFF or of .ts'):
        load_csv(shipped('aeon', 'datasets/data/BasicMotions/BasicMotions_TRAIN.ts'))
    with pytest.raises(ValueError, match='begins with a row of numbers .530.'):
        load_csv(shipped('heartpy', 'data/data.csv'))
    with pytest.raises(ValueError, match='MATLAB'):
        load_csv(shipped('heartpy', 'data/data.mat'))
    with pytest.raises(ValueError, match="'datetime' of seconds has steps of 0 to 0.049"):
        load_csv(shipped('heartpy', 'data/data3.csv'), time='datetime')
    with pytest.warns(UserWarning, match="'timer' .only counts rows or time"):
        assert load_csv(shipped('heartpy', 'data/data2.csv')).meta['columns'] == ['hr']
