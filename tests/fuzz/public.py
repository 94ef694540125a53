"""Functions of the package that read files, and the reasons why some of them have no specimen in the fuzzer."""

import importlib, inspect, pkgutil, re

_READER_NAME = re.compile('(load|read|open|from)(_.*)?')
_PATH_PARAMETERS = ('path', 'paths', 'file', 'folder', 'root', 'source')
_READING_CALLS = {
    'open_file',
    'read_bytes',
    'read_json',
    'read_npz',
    'Npz',
    'table_text',
    'load_weights',
    'load_encoder',
    'safe_open',
    'open_footer',
    'read_groups',
    'read_table',
    'open_video',
    'read_text',
    'read_parquet',
    'read_csv',
    'read_schema',
}

_NO_FILE = 'no untrusted file: a file of the kernel or of the package itself, or code that runs'
_WRITES = 'part of a writer, which reads its own finished or partial files'
_PARTIAL = 'a partial set of flights, which only its author resumes; tests/test_foreign_flights.py forges its records'
_CALLS_LOAD_ENCODER = 'calls only load_encoder, with its class'
_FORGED = 'forged in tests/test_foreign_results.py and tests/test_foreign_tables.py'
_HEADER = 'only the header of a file that the reader of its kind then reads; forged in 09_studies/08_load'
_READ_JSON = 'read_json and a check of its fields, tested in the notebook of its module'

# reader -> reason why it has no row in readers.py
ELSEWHERE = {
    'agents.checkpoint.Checkpoint.load': 'load_weights, as that of `train`; 05_agents/06_recurrent_ppo forges it',
    'agents.player.MemoryAgent.load': _CALLS_LOAD_ENCODER,
    'data.landing.fleet._code_hash': _NO_FILE,
    'data.landing.fleet._read_request': _PARTIAL,
    'data.lerobot._video_info': _WRITES,
    'encoders.baselines._Unlearned.load': _CALLS_LOAD_ENCODER,
    'encoders.frames.cnn.FrameEncoder.load': _CALLS_LOAD_ENCODER,
    'encoders.sequences.encoder.SequenceEncoder.load': _CALLS_LOAD_ENCODER,
    'encoders.sequences.statistics.WindowStatistics.load': _CALLS_LOAD_ENCODER,
    'encoders.frames.resnet.load_resnet': 'its smallest file is 45 MB; 03_encoders/frames/07_resnet forges it',
    'encoders.frames.resnet._digest': 'called by load_resnet',
    'envs.pomdp.base.memory_bytes': _NO_FILE,
    'envs.ram_twins._searched': _NO_FILE,
    'envs.pomdp.belief.ExactBelief.load': _CALLS_LOAD_ENCODER,
    'studies.start_cards.agent_file': _NO_FILE,
    'evaluate.ask._Run.load_cached': 'load_answers, of files that `ask` named and saved in its own cache',
    'studies.grade._Student.read': 'read_answers for a notebook that read_submissions found; forged in test_grade',
    'studies.grade._read_marks': 'its own marks, by core.files.read_json; what does not fit is None: test_grade',
    'studies.grade.read_submissions': 'read_answers for each notebook; test_grade forges names, links and contents',
    'studies.sandbox._sockets': _NO_FILE,
    'studies.papers.probed_games._result': _FORGED,
    'studies.papers.landing._saved_files': _FORGED,
    'studies.papers.landing._set_and_budget': _READ_JSON,
    'studies.papers.landing._read_history': 'forged in 09_studies/papers/07_landing',
    'studies.papers.landing.shipped_curves': _NO_FILE,
    'agents.player._sweep_files': _FORGED,
    'agents.player.load_agents': 'load_policy, for each file of a folder',
    'core.scores._paper_names': _NO_FILE,
    'figures.probe_scores._doubtful': _NO_FILE,
    'studies.sweeps.commands.read_grid': _READ_JSON,
    'studies.page.is_srlviz_page': _READ_JSON,
    'studies.run.is_result': _READ_JSON,
    'studies.sweeps.store.open_store': _WRITES,
    'studies.sweeps.store.request_trials': _WRITES,
    'studies.sweeps.store._read_claim': _WRITES,
    'studies.sweeps.store.claim_trial': _WRITES,
    'studies.sweeps.store.is_finished': _WRITES,
    'studies.sweeps.store.record_lost_trial': _WRITES,
    'studies.sweeps.store.peak_memory': _NO_FILE,
    'studies.load._npz_kind': _HEADER,
    'studies.load._tensors_kind': _HEADER,
    'data.tables.read_table': 'one file of read_tables, which is called',
    'data.tables.table_header': _HEADER,
    'core.files.table_head': _HEADER,
    'core.recipes._hash_source': _NO_FILE,
    'core.scores._paper_methods': _NO_FILE,
    'studies.start_cards.shipped_gallery': _NO_FILE,
    'studies.start_cards.picture_sheet': _NO_FILE,
    'studies.explore._path_subject': 'load or read_table, which are called',
    'widgets.landing.flight_browser.sensor_table': _NO_FILE,
    'widgets.agents.memory_explorer._AgentMemory.read': _NO_FILE,
}


def file_readers() -> dict[str, tuple[str, int]]:
    """Find the functions of the package that read files, by name or by calls: module.name -> (file, first line)."""
    import srlviz

    found = {}
    for info in pkgutil.walk_packages(srlviz.__path__, 'srlviz.'):
        module = importlib.import_module(info.name)
        for name, member in vars(module).items():
            if getattr(member, '__module__', None) != info.name:
                continue
            members = vars(member).items() if inspect.isclass(member) else [(None, member)]
            for method, function in members:
                function = inspect.unwrap(getattr(function, '__func__', function))
                if inspect.isfunction(function) and _reads(method or name, function):
                    full = '.'.join(filter(None, [info.name.removeprefix('srlviz.'), name, method]))
                    found[full] = function.__code__.co_filename, function.__code__.co_firstlineno
    return found


def _reads(name: str, function) -> bool:
    if not function.__code__.co_filename.endswith('.py') or _READING_CALLS & {*function.__code__.co_names}:
        return bool(_READING_CALLS & {*function.__code__.co_names})
    parameters = inspect.signature(function).parameters.values()
    takes_path = any(p.name in _PATH_PARAMETERS or 'Path' in str(p.annotation) for p in parameters)
    return takes_path and bool(_READER_NAME.fullmatch(name))
