"""`pip install` without make: source distribution and wheel, in an empty environment outside the checkout."""

import email, os, shutil, subprocess, sys, tarfile, venv, zipfile
from pathlib import Path

import pytest

import srlviz

ROOT = Path(__file__).parents[1]
NOTEBOOKS = 'course', 'studies', 'tutorials'
# files of a used checkout that git ignores
GENERATED = [
    'data_samples/landings/cache/rows.bin',
    'nbs/studies/atari_probe/scores.csv',
    'nbs/studies/.ipynb_checkpoints/atari_probe.ipynb',
    'srlviz/_modidx.py',
    'srlviz/core/__pycache__/files.pyc',
]
pytestmark = pytest.mark.wheel


def run(*command, cwd, **env):
    "Run a command outside the checkout; show its output if it fails."
    clean = {k: v for k, v in os.environ.items() if k not in ('PYTHONPATH', 'VIRTUAL_ENV')} | env
    result = subprocess.run([str(c) for c in command], cwd=cwd, env=clean, capture_output=True, text=True)
    assert result.returncode == 0, f'{command}:\n{result.stdout[-3000:]}{result.stderr[-3000:]}'
    return result.stdout


def git_files():
    "Return the files that git tracks or would add"
    result = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        pytest.skip('needs git: a source distribution contains the files of git')
    return {name for name in result.stdout.splitlines() if (ROOT / name).is_file()}


@pytest.fixture(scope='module')
def build_folder(tmp_path_factory):
    "Folder with the source distribution and the wheel that is built from it"
    d = tmp_path_factory.mktemp('wheel')
    for name in git_files():
        (d / 'src' / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, d / 'src' / name)
    for name in GENERATED:
        (d / 'src' / name).parent.mkdir(parents=True, exist_ok=True)
        (d / 'src' / name).write_text('')
    run(sys.executable, '-m', 'build', '-o', d, d / 'src', cwd=d)
    return d


@pytest.fixture(scope='module')
def wheel(build_folder):
    return next(build_folder.glob('srlviz-*.whl'))


@pytest.fixture(scope='module')
def python(wheel):
    "Python of an empty environment with the wheel and the run-time requirements, nothing else."
    d = wheel.parent / 'env'
    venv.create(d, with_pip=True)
    python = d / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
    pins = wheel.parent / 'pins.txt'  # without the lock's hashes: our wheel has none
    locks = [(ROOT / f'requirements-{name}.txt').read_text().splitlines() for name in ('lock', 'torch')]
    pins.write_text('\n'.join(line.rstrip(' \\') for lock in locks for line in lock if '--hash' not in line))
    run(python, '-m', 'pip', 'install', '-q', '--no-compile', '--disable-pip-version-check', '-c', pins, wheel, cwd=d)
    yield python
    shutil.rmtree(d)  # 1.6 GB


def test_source_distribution_contains_the_files_of_git(build_folder):
    with tarfile.open(next(build_folder.glob('srlviz-*.tar.gz'))) as archive:
        contents = {m.name.partition('/')[2] for m in archive.getmembers() if m.isfile()}
    assert sorted(git_files() - contents) == []
    extra = contents - git_files() - {'PKG-INFO', 'setup.cfg'}
    assert [name for name in sorted(extra) if not name.startswith('srlviz.egg-info/')] == []


def test_wheel_contains_the_whole_package_only(wheel):
    "Every module, script, sample, lesson, study and tutorial, and nothing else"
    contents = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        str(p.relative_to(ROOT))
        for kind in ('*.py', '*.js', '*.css')
        for p in (ROOT / 'srlviz').rglob(kind)
        if '__pycache__' not in p.parts and p.name != '_modidx.py'
    }
    expected |= {f'srlviz/{name}' for name in git_files() if name.startswith('data_samples/')}
    expected |= {f'srlviz/notebooks/{d}/{p.name}' for d in NOTEBOOKS for p in (ROOT / 'nbs' / d).glob('*.ipynb')}
    expected |= {'srlviz/data/landing/card.md'}
    assert sorted(expected - contents) == []
    assert [name for name in sorted(contents - expected) if '.dist-info/' not in name] == []


def test_wheel_has_metadata_and_licences(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith('.dist-info/METADATA'))
        metadata = email.message_from_bytes(archive.read(name))
        licences = [n.rpartition('/')[2] for n in archive.namelist() if '.dist-info/licenses/' in n]
    assert metadata['Version'] == srlviz.__version__ and metadata['Author'] == 'The srlviz authors'
    assert metadata['Author-email'] is None and sorted(licences) == ['LICENSE', 'NOTICE']
    assert {'dev', 'cluster', 'rllib'} <= set(metadata.get_all('Provides-Extra'))


def test_every_module_imports(python, tmp_path):
    "With the run-time requirements alone: nothing of [dev] is needed."
    names = [
        str(p.relative_to(ROOT).with_suffix('')).replace(os.sep, '.')
        for p in sorted((ROOT / 'srlviz').rglob('*.py'))
        if p.stem not in ('__init__', '_modidx')
    ]
    code = (
        'import importlib, srlviz; assert "site-packages" in srlviz.__file__; '
        f'[importlib.import_module(m) for m in {names}]; print(srlviz.__version__)'
    )
    assert run(python, '-c', code, cwd=tmp_path).strip()


def test_the_command_lists_and_locates_notebooks(python, tmp_path):
    out = run(python.with_name('srlviz'), 'list', cwd=tmp_path)
    for p in (ROOT / 'nbs/studies').glob('*.ipynb'):
        assert p.stem in out
    for p in (ROOT / 'nbs/tutorials').glob('*.ipynb'):
        assert p.stem in out
        location = Path(run(python.with_name('srlviz'), 'path', p.stem, cwd=tmp_path).strip())
        assert location.read_bytes() == p.read_bytes() and location.is_relative_to(python.parents[1])
    for p in (ROOT / 'nbs/course').glob('[0-9][0-9]_*.ipynb'):
        assert p.stem in out


def test_the_course_command_writes_lessons_and_solutions(python, tmp_path):
    "The lessons of the wheel, for students and for the instructor"
    run(python.with_name('srlviz'), 'course', 'room', cwd=tmp_path)
    lessons = sorted(p.name for p in (ROOT / 'nbs/course').glob('[0-9][0-9]_*.ipynb'))
    assert sorted(p.name for p in (tmp_path / 'room/solutions/course').glob('[0-9]*.ipynb')) == lessons
    written = [(tmp_path / 'room/course' / name).read_text(encoding='utf-8') for name in lessons]
    assert not any('BEGIN SOLUTION' in text for text in written)


def test_a_shipped_recording_loads(python, tmp_path):
    code = (
        "from srlviz.core.files import sample_path; from srlviz.core.recordings import load_recording; "
        "rec = load_recording(sample_path('pong_sample.npz')); print(len(rec), rec.n_steps)"
    )
    assert min(map(int, run(python, '-c', code, cwd=tmp_path).split())) > 0
