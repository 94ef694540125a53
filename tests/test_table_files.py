"""Tables that loggers and spreadsheets write: what a file is, what its cells mean, and what is refused and why."""

import bz2, gzip, io, lzma, pickle, re, shutil, warnings, zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

import srlviz
from srlviz.core.files import sample_path
from srlviz.data.importers import load_csv
from srlviz.data.tables import read_table
from srlviz.studies.load import file_kind, load

ROWS = pd.DataFrame({'run': [0, 0, 1, 1], 'x': [0.5, 1.25, -2.0, 3.0], 'k': [1, 2, 1, 3]})
ROLES = dict(episode='run', factors=['k'])


def text_of(**options):
    return ROWS.to_csv(index=False, **options).encode()


def parquet():
    buffer = io.BytesIO()
    ROWS.to_parquet(buffer)
    return buffer.getvalue()


READ = {
    'tabs': text_of(sep='\t'),
    'semicolons': text_of(sep=';', decimal=','),
    'bars': text_of(sep='|'),
    'blanks': text_of(sep=' ').replace(b' ', b'    '),
    'gzip': gzip.compress(text_of()),
    'gzip of UTF-16': gzip.compress(text_of(sep='\t').decode().encode('utf-16')),
    'parquet': parquet(),
}


@pytest.mark.parametrize('ending', ['.csv', '.TSV', '.txt', '.dat', '.npz', '.parquet', ''])
@pytest.mark.parametrize('name', READ)
def test_the_content_of_a_file_decides_what_it_is(name, ending, tmp_path):
    path = tmp_path / f'log{ending}'
    path.write_bytes(READ[name])
    assert file_kind(path) == 'table'
    for read in load_csv, load:
        found = read(path, **ROLES)
        assert found.lengths.tolist() == [2, 2] and found.meta['columns'] == ['x']
        assert np.concatenate([e.obs['sensors'][:, 0] for e in found]).tolist() == ROWS['x'].tolist()
        assert [k for e in found for k in e.factors['k'].tolist()] == ROWS['k'].tolist()


def spreadsheet():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, 'w') as z:
        z.writestr('[Content_Types].xml', '<Types/>')
    return buffer.getvalue()


def arrays():
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros(3))
    return buffer.getvalue()


def feather():
    buffer = io.BytesIO()
    pyarrow.feather.write_feather(pa.table({'x': [1]}), buffer)
    return buffer.getvalue()


REFUSED = {
    'a spreadsheet (.xlsx)': spreadsheet(),
    'a zip archive': b'PK\x03\x04' + bytes(40),
    'bzip2': bz2.compress(text_of()),
    'xz': lzma.compress(text_of()),
    'zstd': b'\x28\xb5\x2f\xfd' + bytes(40),
    'HDF5': b'\x89HDF\r\n\x1a\n' + bytes(40),
    'a pickle': pickle.dumps(ROWS),
    'Feather': feather(),
}


@pytest.mark.parametrize('what', REFUSED)
@pytest.mark.parametrize('ending', ['.csv', '.txt', '.csv.gz'])
def test_another_format_is_refused_with_its_name(what, ending, tmp_path):
    path = tmp_path / f'log{ending}'
    path.write_bytes(REFUSED[what])
    for read in load_csv, load, file_kind:
        with pytest.raises(ValueError) as e:
            read(path)
        assert str(path) in str(e.value) and what in str(e.value) and '; ' in str(e.value)


def test_arrays_called_csv_are_no_table(tmp_path):
    (tmp_path / 'x.csv').write_bytes(arrays())
    with pytest.raises(ValueError, match='x.csv.*npz.*from_arrays'):
        load_csv(tmp_path / 'x.csv')
    shutil.copy(sample_path('pong_sample.npz'), tmp_path / 'pong.csv')
    assert file_kind(tmp_path / 'pong.csv') == 'recording' and len(load(tmp_path / 'pong.csv')) == 3


@pytest.mark.parametrize('data', [b'a,b\n1,\x002\n', bytes(2000), text_of().decode().encode('utf-16-le')])
def test_a_table_with_zero_bytes_is_refused(data, tmp_path):
    (tmp_path / 'log.csv').write_bytes(data)
    for read in load_csv, load:
        with pytest.raises(ValueError, match='log.csv'):
            read(tmp_path / 'log.csv')


def words(recording, name):
    "Words of a factor of each row"
    names = next(f.names for f in recording.factors if f.name == name)
    return [names[code] for code in recording.steps()[name]]


@pytest.fixture
def read(tmp_path):
    "Read a table of text, with the arguments of `read_table`"

    def read(text, **options):
        path = tmp_path / 'log.csv'
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_table(path, **options)

    return read


def test_words_stay_literal_in_columns_of_text(read):
    table = read('tool,code\nNone,1E5\nNA,a\n,007\nnull,2.10\n')
    assert table['tool'].fillna('missing').tolist() == ['None', 'NA', 'missing', 'null']
    assert table['code'].tolist() == ['1E5', 'a', '007', '2.10']


def test_a_word_in_the_last_of_many_rows_makes_the_column_text(read):
    "Readers that decide by blocks make a column of numbers and texts"
    table = read('x,y\n' + '1,2\n' * 300_000 + '1,err\n')
    assert table['y'].iloc[[0, -1]].tolist() == ['2', 'err'] and table['x'].dtype == 'int64'


def test_numbers_with_missing_words_are_numbers(read):
    table = read('a,b,c\n1,2.5,1\nNA,,2\nNaN,null,3\n')
    assert table['a'].isna().tolist() == [False, True, True] and table['a'][0] == 1
    assert table['b'][0] == 2.5 and table['b'].isna().sum() == 2 and table['c'].dtype == 'int64'


def test_large_whole_numbers_stay_exact(read):
    n = 1_700_000_000_123_456_789
    table = read(f'a,b,c,d\n{n},{2**64 - 1},{"1" * 40},{n}\n{n + 1},0,2,\n')
    assert table['a'].tolist() == [n, n + 1] and table['b'].tolist() == [2**64 - 1, 0]
    assert table['c'].tolist() == ['1' * 40, '2'] and table['d'][0] == n and table['d'].isna()[1]


@pytest.mark.parametrize(
    'words, is_text',
    [
        (['007', '7'], True),
        (['2.10', '2.1'], True),
        (['1E5', '100000'], True),
        (['1', 'NA'], True),
        (['1E5', '2'], False),
        (['2.1', '3'], False),
        (['0.0', '-0.0'], False),
        (['-1', '0'], False),
    ],
)
def test_a_factor_is_a_number_only_if_numbers_keep_its_words_apart(words, is_text, read):
    found = read('x,k\n' + ''.join(f'1,{w}\n' for w in words), factors=['k'])['k'].tolist()
    assert found == (words if is_text else [*map(float, words)])


def test_names_of_episodes_are_the_words_of_the_file(tmp_path):
    path = tmp_path / 'log.csv'
    path.write_text('run,x\n007,1\n1E5,2\n2.10,3\n2.1,4\nNone,5\nNA,6\n')
    names = ['007', '1E5', '2.10', '2.1', 'None', 'NA']
    assert [e.name for e in load_csv(path, episode='run')] == names
    (tmp_path / 'b.csv').write_text('run,x\n7,1\n')
    assert [e.name for e in load_csv([path, tmp_path / 'b.csv'], episode='run')] == [*names, '7']
    numbers = load_csv(tmp_path / 'b.csv', episode='run', obs=['run', 'x'])
    assert numbers[0].name == '7' and numbers[0].obs['sensors'].tolist() == [[7, 1]]


def test_factors_are_words_or_plain_numbers(tmp_path):
    (tmp_path / 'log.csv').write_text('x,k\n1,007\n2,7\n')
    assert words(load_csv(tmp_path / 'log.csv', factors=['k']), 'k') == ['007', '7']
    assert words(load_csv(tmp_path / 'log.csv', factors={'k': 'class'}), 'k') == ['007', '7']
    assert load_csv(tmp_path / 'log.csv', factors={'k': 'number'}).steps()['k'].tolist() == [7, 7]


COUNTRIES = {
    'German': ('a;b\n1.250;12,5\n990;0,125\n', {}),
    'German, several groups': ('a;b\n1.250;12,5\n990;0,125\n1.000.000;1\n', {}),
    'English': ('a;b\n1,250;12.5\n990;0.125\n', {}),
    'English, in quotes': ('a,b\n"1,250",12.5\n990,0.125\n', {}),
    'French': ('a;b\n1 250;12,5\n990;0,125\n', dict(thousands=' ')),
    'French, narrow': ('a;b\n1\u202f250;12,5\n990;0,125\n', dict(thousands=' ')),
    'Swiss': ("a;b\n1'250;12.5\n990;0.125\n", dict(thousands="'")),
    'German, told': ('a;b\n1.250;12,5\n990;0,125\n', dict(thousands='.', decimal=',', sep=';')),
}


@pytest.mark.parametrize('country', COUNTRIES)
def test_numbers_of_several_countries(country, read):
    text, options = COUNTRIES[country]
    table = read(text, **options)
    assert table['a'].tolist()[:2] == [1250, 990] and table['b'].tolist()[:2] == [12.5, 0.125]


@pytest.mark.parametrize(
    'text, words',
    [
        ('a;b\n12.5;1\n2;12,5\n', ["'a'", "'12.5'", "'b'", "'12,5'", 'decimal=']),
        ('a;b\n990;1\n1,250;1\n', ["'a'", "'1,250'", 'row 1', 'decimal=', 'thousands=']),
        ('a,b\n"1,250",1\n', ["'a'", "'1,250'", 'thousands=']),
        ('a;b\n990;1\n1 250;1\n', ["'a'", "'1 250'", 'row 1', "thousands=' '"]),
        ("a;b\n1'250;1\n", ["'a'", "1'250", 'thousands=']),
        ('a;b\n1\u00a0250;1\n', ["'a'", 'thousands=']),
    ],
)
def test_numbers_with_two_readings_are_refused(text, words, read):
    with pytest.raises(ValueError) as e:
        read(text)
    assert all(w in str(e.value) for w in ['log.csv', *words])


def test_a_number_that_may_be_read_otherwise_is_read_with_a_warning(read):
    with pytest.warns(UserWarning, match="'a'.*'1.250'.*thousands="):
        assert read('a;b\n1.250;x\n')['a'][0] == 1.25
    with pytest.warns(UserWarning, match="'a'.*'3,4'.*decimal="):
        assert read('a,b\n"3,4",x\n')['a'][0] == 3.4
    assert read('a,b\n"3,4",x\n', decimal='.')['a'][0] == '3,4'
    assert read('a;b\n1.250;x\n', decimal='.')['a'][0] == 1.25
    with pytest.warns(UserWarning, match="'lat'.*'47,123', read as 47123.*decimal=','.*thousands=','"):
        assert read('lat;ver\n47,123;1.5\n47,124;2.5\n')['lat'][0] == 47123
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert read('lat;ver\n47,123;1.5\n1,200.5;2.5\n')['lat'][0] == 47123  # the column itself shows it
        assert read('lat;ver\n47,123;1.5\n', thousands=',')['lat'][0] == 47123
        assert read('lat;ver\n47,123;1.5\n', decimal=',')['lat'][0] == 47.123


@pytest.mark.parametrize('name', ['thousands', 'decimal', 'sep'])
@pytest.mark.parametrize('mark', ['', 'ab', '"', '\n', '1', 5, 'e'])
def test_a_mark_that_is_no_single_character_is_refused(name, mark, read):
    with pytest.raises(ValueError, match=name):
        read('a,b\n1,2\n', **{name: mark})


@pytest.mark.parametrize(
    'text, line',
    [('a,b\n1,2\n1,2,3\n', 3), ('# x\na,b\n1\n', 3), ('a,b\n"x\ny",2\n1,2,3\n', 4), ('a b\n1 2\n\n1 2 3\n', 4)],
)
def test_a_row_with_other_cells_than_the_header_names_its_line(text, line, read):
    with pytest.raises(ValueError, match=f'log.csv, line {line}'):
        read(text)


@pytest.mark.parametrize('separated', [False, True])
def test_a_row_of_units_and_a_missing_header_are_refused(separated, read):
    end = ';' if separated else ''
    with pytest.raises(ValueError, match='row of units.*remove'):
        read(f't;speed;room{end}\ns;m/s;{end}\n0;1;hall{end}\n1;2;yard{end}\n')
    with pytest.raises(ValueError, match='row of numbers.*names'):
        read(f'0;1;2{end}\n0;1;3{end}\n')


def test_comments_above_a_table_and_the_header_of_savetxt(tmp_path, read):
    np.savetxt(tmp_path / 'saved.txt', ROWS, header='run x k')
    assert [*read_table(tmp_path / 'saved.txt')] == ['run', 'x', 'k']
    np.savetxt(tmp_path / 'saved.txt', ROWS, header='logger, version 2\nrun;x;k', delimiter=';')
    assert read_table(tmp_path / 'saved.txt')['x'].tolist() == ROWS['x'].tolist()
    for above in '# a, b, c\n', '#\n# made by a logger\n', '\n# a comment\n\n':
        pd.testing.assert_frame_equal(read(above + text_of().decode()), ROWS)


def test_a_file_given_twice_is_refused(tmp_path, monkeypatch):
    (tmp_path / 'a.csv').write_bytes(text_of())
    (tmp_path / 'b.csv').write_bytes(text_of())
    (tmp_path / 'c.csv').symlink_to(tmp_path / 'a.csv')
    monkeypatch.chdir(tmp_path)
    for other in 'a.csv', tmp_path / 'a.csv', 'b.csv', 'c.csv':
        with pytest.raises(ValueError, match='path.*count twice'):
            load_csv(['a.csv', other], **ROLES)


@pytest.mark.parametrize('cells', [['1', '', '2'], ['mon', '', 'tue']])
def test_an_episode_without_a_name_is_refused(cells, tmp_path):
    (tmp_path / 'log.csv').write_text('run,x\n' + ''.join(f'{c},1\n' for c in cells))
    with pytest.raises(ValueError, match='log.csv.*run.*row 1'):
        load_csv(tmp_path / 'log.csv', episode='run')


def test_a_column_is_of_one_type_over_all_files(tmp_path):
    (tmp_path / 'a.csv').write_text('x,k\n1,7\n')
    (tmp_path / 'b.csv').write_text('x,k\n2,low\n')
    found = load_csv([tmp_path / 'a.csv', tmp_path / 'b.csv'], factors=['k'])
    assert words(found, 'k') == ['7', 'low']


@pytest.mark.parametrize('number, comma', [('1.250', '1.250,5'), ('1.5', '2,5'), ('0.5', '1.000.000')])
def test_files_of_one_set_are_written_alike(number, comma, tmp_path):
    paths = [tmp_path / name for name in ('whole.csv', 'point.csv', 'comma.csv')]
    for path, word in zip(paths, ['1250', number, comma]):
        path.write_text(f'x;k\n{word};1\n')
    with pytest.raises(ValueError, match='point.csv has .*decimal point, and .*comma.csv .*decimal comma'):
        load_csv(paths, factors=['k'])
    assert len(load_csv([paths[0], paths[2]], factors=['k'])) == 2  # a whole number is written either way
    if number == '1.250':
        found = load_csv(paths, factors=['k'], decimal=',', thousands='.')
        assert [e.obs['sensors'][0, 0] for e in found] == [1250, 1250, 1250.5]


def test_a_blank_line_of_a_single_column_is_a_missing_value(read, tmp_path):
    for text in 'v\n1\n\n3\n', 'v\r\n1\r\n\r\n3\r\n', '# a logger\nv\n1\n \n3\n\n':
        table = read(text)
        assert table['v'].isna().tolist() == [False, True, False] and table['v'][2] == 3
    assert read('v;w\n1;2\n\n3;4\n')['v'].tolist() == [1, 3]
    (tmp_path / 'log.csv').write_text('v\n1\n\n3\n')
    with pytest.raises(ValueError, match="'v' has 1 missing values, the first in row 1"):
        load_csv(tmp_path / 'log.csv', obs=['v'])


@pytest.mark.parametrize(
    'stamps, words',
    [
        (['2026-01-01 00:00:00', 'NaT', '2026-01-01 00:00:02'], "'when' has 1 missing values, the first in row 1"),
        (['00:00:01', '00:00:02', '00:00:03'], "'00:00:01' in row 0.*pd.to_datetime.column, format="),
        (['2026-01-01 00:00:00', '2026-01-01 00:00:01', 'reset'], "'reset' in row 2.*pd.to_datetime.column, format="),
        (['2026-01-13 00:00:00,500 CET'] * 3, 'pd.to_datetime.column, format='),
    ],
)
def test_an_unreadable_time_names_its_row_and_the_cure(stamps, words, tmp_path):
    pd.DataFrame({'when': stamps, 'x': [0.5, 2.0, 1.0]}).to_csv(tmp_path / 'log.csv', index=False)
    with pytest.raises(ValueError, match=f'log.csv.*{words}'):
        load_csv(tmp_path / 'log.csv', time='when', obs=['x'])


@pytest.mark.parametrize('mark', [',', '.'])
@pytest.mark.parametrize(
    'word', ['n.v.', '-', 'NaN?', 'Ausfall', '---', '<0,01', '5,07*', '5,05 V', '#DIV/0!', '?', '∞', '1e']
)
def test_the_word_among_numbers_is_blamed_and_not_a_number(tmp_path, mark, word):
    numbers = [f'{i % 7}.{i:03d}'.replace('.', mark) for i in range(1, 200)]
    cells = [*numbers[:2], word, *numbers[2:]]
    path = tmp_path / 'log.csv'
    path.write_text('x;k;y\n' + ''.join(f'{x};{i % 2};{i * i % 17}\n' for i, x in enumerate(cells)))
    blamed = re.escape(f"{word!r} in row 2")
    with pytest.warns(UserWarning, match=f"'x' .numbers, but {blamed}; leave such cells empty"):
        srlviz.load(path, factors=['k'])
    path_without = tmp_path / 'others.csv'
    path_without.write_text('\n'.join(';'.join(line.split(';')[:2]) for line in path.read_text().split()))
    for options in dict(obs=['x'], factors=['k']), dict(obs=['x'], fill='nan'), dict(obs=['y'], factors=['x']):
        with pytest.raises(ValueError, match=f"'x' holds .*{blamed}; leave"):
            srlviz.load(path, **options)
    with pytest.raises(ValueError, match=f"'x' holds numbers, and {blamed}"):
        srlviz.load(path, obs=['y'], factors={'x': 'number'})
    if ' ' not in word:
        with pytest.raises(ValueError, match=f"obs has no columns.*'x' .numbers, but {blamed}"):
            srlviz.load(path_without, factors=['k'])
    path.write_text(path.read_text().replace(word, ''))
    recording = srlviz.load(path, factors=['k'], fill='nan')  # the cure
    assert np.isnan(recording[0].obs['sensors'][2, 0]) and recording[0].obs['sensors'][0, 0] == np.float32(1.001)


def test_words_of_classes_may_look_like_numbers(tmp_path):
    path = tmp_path / 'log.csv'
    path.write_text(
        'x,tool\n' + ''.join(f'{i * i % 17},{t}\n' for i, t in enumerate(['2.10', '2.1', '007', 'None'] * 30))
    )
    assert srlviz.load(path, factors=['tool']).factors[0].names == ('007', '2.1', '2.10', 'None')
    many = 'x,part\n' + ''.join(f'{i * i % 17},{i if i else "A1"}\n' for i in range(100))
    path.write_text(many)
    with pytest.raises(ValueError, match="'part' holds numbers, and 'A1' in row 0.*'class'"):
        srlviz.load(path, factors=['part'])
    assert len(srlviz.load(path, factors={'part': 'class'}).factors[0].names) == 100  # the cure


def test_numbers_written_in_two_ways_are_no_classes_without_a_word(tmp_path):
    values = np.round(20 + np.arange(400) * 7 % 311 / 10, 1)
    cells = [f'{v:.2f}' if i % 2 else f'{v:g}' for i, v in enumerate(values)]  # 20.5 and 20.50
    pd.DataFrame({'a': np.arange(400) ** 2 % 17, 'x': cells}).to_csv(tmp_path / 'log.csv', index=False)
    with pytest.raises(
        ValueError, match="'x' holds .* different words that are numbers, such as '20'.*'class'.*'number'"
    ):
        load(tmp_path / 'log.csv', factors=['x'])
    number = load(tmp_path / 'log.csv', factors={'x': 'number'})
    assert number[0].factors['x'].tolist() == values.tolist()
    assert load(tmp_path / 'log.csv', factors={'x': 'class'}).factors[0].kind == 'categorical'
    table = pd.DataFrame({'a': np.arange(400) ** 2 % 17, 'x': cells})
    with pytest.raises(ValueError, match="'x' holds .* numbers.*pd.to_numeric"):
        srlviz.Recording.from_table(table, factors={'x': 'number'})


@pytest.mark.parametrize('word', ['inf', '-Infinity', '1e400'])
@pytest.mark.parametrize('column', ['x', 'k'])
@pytest.mark.parametrize('fill', [None, 'nan', 'previous'])
def test_infinite_is_not_called_missing(tmp_path, word, column, fill):
    table = pd.DataFrame({'x': [0.5, 1.5, 0.25, 7], 'k': [0, 1, 1, 0]}).astype({column: str})
    table.loc[2, column] = word
    table.to_csv(tmp_path / 'log.csv', index=False)
    with pytest.raises(ValueError, match=f"'{column}' has 1 infinite values, the first in row 2"):
        load(tmp_path / 'log.csv', factors=['k'], fill=fill)


@pytest.mark.parametrize('encoding', ['utf-16-le', 'utf-16-be', 'utf-32', 'utf-32-be'])
def test_wide_text_without_its_mark_is_named(tmp_path, encoding):
    for text in 'x,k\n1.5,0\n2.5,1\n', 'Größe,k\n1.5,0\n2.5,1\n':
        (tmp_path / 'log.csv').write_bytes(text.encode(encoding))
        for read in load, load_csv:
            with pytest.raises(ValueError, match='log.csv is text in UTF-16 without its mark, or in UTF-32; save'):
                read(tmp_path / 'log.csv', factors=['k'])


def test_a_damaged_file_of_gzip_is_called_damaged(tmp_path):
    packed = gzip.compress(text_of())
    for damaged in packed[:-9], packed + b'garbage', packed[:-8] + bytes(4) + packed[-4:]:
        (tmp_path / 'log.csv.gz').write_bytes(damaged)
        with pytest.raises(ValueError, match='log.csv.gz is damaged'):
            load(tmp_path / 'log.csv.gz', **ROLES)
    (tmp_path / 'log.csv.gz').write_bytes(gzip.compress(text_of()[:20]) + gzip.compress(text_of()[20:]))
    assert len(load(tmp_path / 'log.csv.gz', **ROLES)) == 2  # two members


def test_a_warning_names_the_line_of_the_caller(tmp_path):
    (tmp_path / 'logged.csv').write_text('run;speed\n0;1.234\n0;2.345\n1;3.456\n1;4.567\n')
    for read in (read_table, load_csv, load):
        with pytest.warns(UserWarning, match='thousands') as caught:
            read(tmp_path / 'logged.csv')
        assert {w.filename for w in caught} == {__file__}
