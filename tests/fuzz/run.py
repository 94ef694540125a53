"""Run each case in a separate process with limits of time and memory, and compare the folders before and after."""

import hashlib, json, os, random, select, shutil, signal, stat, sys, tempfile, time, traceback
from collections import Counter, deque
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from . import mutate

LIMIT = 10.0  # seconds
MAX_MEMORY = 2**31  # bytes that reading may use
MAX_ADDRESS_SPACE = MAX_MEMORY + 2**28  # bytes that a case may allocate before the kernel refuses

# a reader is sound if all its verdicts are in GOOD
GOOD = ('named', 'by verify', 'harmless', 'plain values')
BAD = ('bare', 'silent', 'undrawn', 'hang', 'memory', 'outside', 'ran', 'killed', 'broken')
VERDICTS = GOOD + BAD


class Result(NamedTuple):
    """One case: the mutation of the file, and its outcome."""

    reader: str
    case: int
    mutation: str
    verdict: str
    message: str
    seconds: float
    mb: float


def case_rng(reader: str, case: int, seed: int) -> random.Random:
    """Return the random generator of a case; the same on every machine."""
    return random.Random(f'{seed} {reader} {case}')


# ---- contents of a folder


def snapshot(root: Path) -> dict[str, tuple]:
    """Return path -> type, time of change, size and hash of everything below a folder, without following links."""
    out = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = Path(folder, name)
            s = path.lstat()
            content = ''
            if stat.S_ISREG(s.st_mode):
                content = (
                    s.st_mtime_ns,
                    s.st_size,
                    hashlib.sha256(path.read_bytes()).hexdigest() if s.st_size < 2**27 else '',
                )
            elif stat.S_ISLNK(s.st_mode):
                content = os.readlink(path)
            out[path.relative_to(root).as_posix()] = stat.S_IFMT(s.st_mode), content
    return out


def foreign_changes(before: dict, after: dict, writes: tuple[str, ...]) -> list[str]:
    """List the paths that were made, changed or removed, except those that match a pattern of `writes`."""
    verb = lambda p: 'made' if p not in before else 'removed' if p not in after else 'changed'
    differ = [p for p in {**before, **after} if before.get(p) != after.get(p)]
    return [f'{verb(p)} {p}' for p in differ if not any(fnmatch(p, w) for w in writes)]


# ---- audit events of Python

_EVENTS = {
    'os.remove': (0,),
    'os.rename': (0, 1),
    'os.mkdir': (0,),
    'os.rmdir': (0,),
    'os.link': (0, 1),
    'os.symlink': (1,),
    'os.truncate': (0,),
    'os.chmod': (0,),
    'shutil.rmtree': (0,),
}
_RUNS = (
    'subprocess.Popen',
    'os.system',
    'os.exec',
    'os.posix_spawn',
    'os.spawn',
    'pickle.find_class',
    'socket.connect',
    'socket.getaddrinfo',
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """Record, while it is on, what Python writes outside of a folder, and the code that it runs."""

    def __init__(self, root: Path):
        self.root = os.path.realpath(root)
        self.on = False
        self.outside = []
        self.ran = []
        sys.addaudithook(self._on_event)

    def _on_event(self, event, args):
        if not self.on:
            return
        if event in _RUNS:
            self.ran.append(f'{event} {args[:2]!r:.100}')
        elif event == 'open' and isinstance(args[2], int) and args[2] & _WRITING:
            self._write('open', args[0])
        elif event in _EVENTS:
            for i in _EVENTS[event]:
                self._write(event, args[i])

    def _write(self, event, path):
        with suppress(TypeError, ValueError):
            path = os.path.abspath(os.fsdecode(path))
            if not path.startswith((self.root + '/', '/dev/', '/proc/')) and '__pycache__' not in path:
                self.outside.append(f'{event} {path:.100}')


# ---- memory, as the kernel reports it


def status(field: str) -> int:
    """Return a field of /proc/self/status in bytes."""
    text = Path('/proc/self/status').read_text()
    return int(text.partition(f'{field}:')[2].split()[0]) * 1024


def start_measuring() -> int:
    """Reset the peak of memory; return the memory in use."""
    with suppress(OSError):
        Path('/proc/self/clear_refs').write_text('5')
    return status('VmRSS')


_MEMORY_ERRORS = (
    'Unable to allocate',
    'bad_alloc',
    'not enough memory',
    'malloc of size',
    'realloc of size',
    'MemoryError',
    'File too large',
    "can't allocate memory",
)


def wanted_memory(e: BaseException | None) -> bool:
    """Return whether an exception, or any in its chain, was a failed allocation of memory.

    FFmpeg's is none: it refuses more than 2 GB at once itself, before it asks for them; the peak is measured anyway.
    """
    seen = set()
    while e is not None and id(e) not in seen:
        seen.add(id(e))
        of_ffmpeg = type(e).__module__.startswith('av.')
        if isinstance(e, MemoryError) and not of_ffmpeg or any(w in str(e) for w in _MEMORY_ERRORS):
            return True
        e = e.__cause__ or e.__context__
    return False


# ---- values


def digest(value, root: str) -> str:
    """Return type and shape, a colon, and a hash of a value from a reader; texts are hashed without `root`."""
    import numpy as np, pandas as pd, torch

    if isinstance(value, torch.Tensor):
        if value.numel() * value.element_size() > MAX_MEMORY:
            return f'{value.dtype}{tuple(value.shape)}:a view'  # of few bytes
        value = value.detach().numpy()
    if isinstance(value, (pd.DataFrame, pd.Series)):
        frame = value.to_frame() if isinstance(value, pd.Series) else value
        index = frame.index.tolist()
        columns = [[str(k), [_plain(x) for x in frame.iloc[:, i]]] for i, k in enumerate(frame)]
        return f'table{frame.shape}:{_hash(json.dumps([str(index), columns], default=str).replace(root, ""))}'
    if isinstance(value, np.ndarray) and value.dtype.kind in 'biufc':
        return f'{value.dtype}{value.shape}:{_hash(np.ascontiguousarray(value).tobytes())}'
    if isinstance(value, np.ndarray):
        return f'text{value.shape}:{_hash(json.dumps(value.tolist(), default=str))}'
    text = json.dumps(value, default=_plain, sort_keys=True).replace(root, '')
    return f'{type(value).__name__}:{_hash(text)}'


def _plain(x):
    if hasattr(x, 'tolist'):
        return x.tolist()
    if isinstance(x, (str, int, float, bool, type(None), list, dict)):
        return x
    return repr(x)


def _hash(x: str | bytes) -> str:
    return hashlib.sha256(x if isinstance(x, bytes) else x.encode('utf-8', 'surrogatepass')).hexdigest()[:16]


# ---- one case, in a separate process


class Outcome(NamedTuple):
    """The outcome of a call: digests of the parts that it returned, or the error that it raised."""

    parts: dict | None = None
    error: str = ''
    named: bool = True
    memory: bool = False


def attempt(call, root: str, names_the_file) -> Outcome:
    """Call a reader on the mutated specimen."""
    try:
        parts = {k: digest(v, root) for k, v in call().items()}
        return Outcome(parts)
    except BaseException as e:
        if isinstance(e, (KeyboardInterrupt, SystemExit)) and not str(e):
            raise
        kind = type(e).__name__ if type(e).__module__ == 'builtins' else f'{type(e).__module__}.{type(e).__name__}'
        frames = traceback.extract_tb(e.__traceback__)
        where = next((f'{Path(f.filename).name}:{f.lineno}' for f in reversed(frames) if '/srlviz/' in f.filename), '')
        text = ' '.join(str(e).replace(root, '<root>').split())
        error = f'{kind} at {where}: {text:.300}'
        plain_type = (
            type(e).__module__ == 'builtins'
            and isinstance(e, (ValueError, OSError))
            and not isinstance(e, UnicodeError)
        )
        return Outcome(None, error, plain_type and names_the_file(str(e)), wanted_memory(e))


def judge(reader, read: Outcome, check: Outcome | None, base: dict, same: bool, signed: bool, plain) -> tuple[str, str]:
    """Return verdict and message of a case from the outcomes of reading and verifying."""
    for outcome in filter(None, (read, check)):
        if outcome.memory:
            return 'memory', outcome.error
        if outcome.error and not outcome.named:
            return 'bare', outcome.error
    faults = '' if check is None else check.error
    if read.error:
        if check is not None and not faults:
            return 'silent', f'verify finds nothing; reading: {read.error}'
        return 'named', read.error
    differ = {k: (base.get(k), read.parts.get(k)) for k in {**base, **read.parts} if base.get(k) != read.parts.get(k)}
    changes = ', '.join(f'{k} ({a} -> {b})' for k, (a, b) in [*differ.items()][:3])
    if faults:
        return ('by verify', changes) if differ else ('named', faults)
    if check is not None and reader.sign and not signed and not same:
        return 'silent', 'verify finds nothing; ' + changes
    if not differ:
        return 'harmless', ''
    return ('plain values' if plain(list(differ.values())) else 'silent'), changes


class Stage:
    """The folders of a case: `case` with the specimen, `victim` with files that no reader may touch, and a home."""

    def __init__(self, root: Path, specimen: Path):
        self.root, self.place, self.victim = root, root / 'case', root / 'victim'
        shutil.copytree(specimen, self.place, symlinks=True)
        (self.place / 'diary.txt').write_text('dear diary')
        for name in ('home', 'home/run', 'tmp', 'cwd'):
            (root / name).mkdir()
        for name in (
            'keep',
            'keep.json',
            'keep.npy',
            'keep.zip',
            'keep.parquet',
            'keep.html',
            'meta/info',
            'meta/info.json',
            'meta/info.npy',
            'frame.npy',
            'frame.json',
            'steps/000.parquet',
            'partial/000000.json',
            'cache/frame.npy',
        ):
            path = self.victim / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('a thesis')

    def enter(self):
        "Switch this process to the folders of the case: home, caches, temporary files and working directory"
        os.environ |= dict(
            HOME=str(self.root / 'home'),
            XDG_CACHE_HOME=str(self.root / 'home/.cache'),
            XDG_RUNTIME_DIR=str(self.root / 'home/run'),
            TMPDIR=str(self.root / 'tmp'),
        )
        tempfile.tempdir = None
        os.chdir(self.root / 'cwd')


_SCRATCH = 'home/*', 'tmp/*'  # where any reader may write


class Calls:
    """Record, within a `with` block, which functions of the package are called: (file, first line)."""

    def __init__(self):
        self.made = set()

    def __enter__(self):
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _note(self, frame, event, arg):
        if event == 'call' and '/srlviz/' in frame.f_code.co_filename:
            self.made.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))


def _set_limits():
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (status('VmSize') + MAX_ADDRESS_SPACE,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def perform(reader, case: int | None, seed: int, specimen: Path, base: dict, root: Path, send) -> None:
    """Mutate a copy of the specimen, read it and send the outcome. A case of None changes nothing."""
    stage, watch = Stage(root, specimen), Watch(root)
    stage.enter()
    target = next(stage.place.glob(reader.target))
    rng = case_rng(reader.name, case, seed)
    signed = False
    files = [p.relative_to(stage.place).as_posix() for p in stage.place.rglob('*') if p.is_file()]
    old = target.read_bytes()
    mutation = 'nothing'
    if case is not None:
        mutation = mutate.apply(reader.kind, case, target, rng, stage.victim)
        if reader.sign and rng.random() < 0.5 and not target.is_symlink() and target.is_file():
            signed = True
            reader.sign(stage.place, reader.target)
            mutation += ', signed again'
    send(mutation.replace(str(root), '<root>'))
    new = target.read_bytes() if target.is_file() and target.resolve() != Path('/dev/zero') else None
    names_the_file = _names_the_file(reader, stage, target, files)
    before = snapshot(root)
    start = time.monotonic()
    _set_limits()
    in_use = start_measuring()
    watch.on = True
    read = attempt(lambda: reader.touch(stage.place), str(root), names_the_file)
    check = None if reader.verify is None else attempt(lambda: reader.verify(stage.place), str(root), names_the_file)
    drawn = Outcome()
    if reader.draw is not None and not read.error:
        drawn = attempt(lambda: reader.draw(stage.place) or {}, str(root), names_the_file)
    watch.on = False
    peak = status('VmHWM') - in_use
    seconds = time.monotonic() - start
    changes = (
        foreign_changes(before, snapshot(root), (*_SCRATCH, *(f'case/{w}' for w in reader.writes))) + watch.outside
    )

    def plain(differ):
        if reader.optional and (target.is_symlink() or not target.is_file()):
            return True
        try:
            return bool(new is not None and not target.is_symlink() and reader.plain(old, new, differ))
        except Exception:
            return False

    if watch.ran:
        verdict, message = 'ran', '; '.join(watch.ran[:3])
    elif changes:
        verdict, message = 'outside', '; '.join(changes[:4])
    elif peak > MAX_MEMORY:
        verdict, message = 'memory', read.error
    else:
        verdict, message = judge(reader, read, check, base, new == old, signed, plain)
        if verdict in GOOD and drawn.error and (drawn.memory or not drawn.named):
            verdict, message = 'memory' if drawn.memory else 'undrawn', drawn.error
    send(
        dict(
            verdict=verdict,
            message=message,
            seconds=seconds,
            mb=peak / 2**20,
            parts=read.parts,
            error=read.error or (check.error if check else '') or drawn.error,
        )
    )


def _names_the_file(reader, stage: Stage, target: Path, files: list[str]):
    "Return a test whether a text names a file: the mutated one, its folder (if not the top), or any of the specimen"
    known = [target.name, *reader.accepted_names, *(f for f in files if f != 'diary.txt')]
    if target.parent != stage.place:
        known.append(target.parent.relative_to(stage.place).as_posix())  # as in lists of faults
    return lambda text: any(k in text for k in known)


# ---- many cases


def cpu_time(pid: int) -> tuple[float, bool]:
    """Return the CPU seconds of a process, and whether it waits for something other than the CPU or the disk."""
    try:
        fields = [Path(p, 'stat').read_text().rpartition(')')[2].split() for p in Path(f'/proc/{pid}/task').iterdir()]
        total = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    except (OSError, IndexError):
        return 0.0, False
    return sum(map(int, total[11:13])) / os.sysconf('SC_CLK_TCK'), not any(f[0] in 'RD' for f in fields)


class _Process:
    "A forked process that sends lines of JSON"

    def __init__(self, work, root: Path, limit: float):
        self.root = root
        self.limit = limit
        self.lines = []
        self.rest = b''
        root.mkdir(parents=True)
        self.fd, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.fd)
            _run_child(write, work)
        os.close(write)
        with suppress(OSError):
            os.setpgid(self.pid, self.pid)  # in parent and child, since either may run first
        self.used = 0.0
        self.next_check = time.monotonic() + 6 * limit
        self.deadline = time.monotonic() + 20 * limit

    def receive(self) -> bool:
        "Read the lines that were sent; False at the end"
        data = os.read(self.fd, 1 << 20)
        *lines, self.rest = (self.rest + data).split(b'\n')
        self.lines += map(json.loads, lines)
        if lines:
            self.next_check = time.monotonic() + self.limit
        return bool(data)

    def stuck(self) -> bool:
        "Return whether its time is over; the time that it waits for a busy CPU does not count"
        used, waits = cpu_time(self.pid)
        before, self.used = self.used, used
        if used >= self.limit or waits and used - before < 0.05 or time.monotonic() > self.deadline:
            return True
        self.next_check = time.monotonic() + self.limit / 2
        return False

    def end(self, kill: bool = False) -> int:
        if kill:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        os.close(self.fd)
        code = os.waitpid(self.pid, 0)[1]
        shutil.rmtree(self.root, ignore_errors=True)
        return code


def _run_child(write: int, work) -> None:
    "Run the child: without terminal or output, and without returning to the code of the parent"
    code = 1
    try:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in 0, 1, 2:
            os.dup2(null, fd)
        sys.dont_write_bytecode = True
        work(lambda x: os.write(write, json.dumps(x).encode() + b'\n'))
        code = 0
    except BaseException:
        with suppress(BaseException):
            os.write(write, json.dumps(dict(broken=traceback.format_exc())).encode() + b'\n')
    finally:
        os._exit(code)


class Broken(RuntimeError):
    """Error of the fuzzer itself, or of a specimen."""


def run_all(todo, jobs: int, limit: float, where: Path):
    """Run (key, work) in processes, `jobs` at a time; yield key, its lines, how it ended ('', 'hang', 'signal n')."""
    todo = deque(todo)
    live = {}
    n = 0
    try:
        while todo or live:
            while todo and len(live) < jobs:
                key, work = todo.popleft()
                root = where / f'{n:06}'
                n += 1
                p = _Process(lambda send, work=work, root=root: work(root, send), root, limit)
                live[p.fd] = key, p
            now = time.monotonic()
            ready, _, _ = select.select([*live], [], [], max(0, min(p.next_check for _, p in live.values()) - now))
            for fd in ready:
                key, p = live[fd]
                if p.receive():
                    continue
                del live[fd]
                code = p.end()
                yield key, p.lines, f'signal {os.WTERMSIG(code)}' if os.WIFSIGNALED(code) else ''
            for fd, (key, p) in [*live.items()]:
                if fd in ready or time.monotonic() < p.next_check or not p.stuck():
                    continue
                del live[fd]
                p.end(kill=True)
                yield key, p.lines, 'hang'
    finally:
        for _, p in live.values():
            p.end(kill=True)


def _broken(lines) -> str:
    return next((x['broken'] for x in lines if isinstance(x, dict) and 'broken' in x), '')


def make_specimens(readers, jobs: int, where: Path) -> dict:
    """Make each specimen once, in separate processes that leave this one unchanged; return maker -> folder."""
    makers = list(dict.fromkeys(r.make for r in readers))
    place = {m: where / 'specimens' / f'{i} {m.__name__}' for i, m in enumerate(makers)}

    def work(m):
        return lambda root, send: (place[m].mkdir(parents=True), m(place[m]), send('made'))

    for m, lines, ended in run_all([(m, work(m)) for m in makers], jobs, 60.0, where / 'making'):
        if ended or lines != ['made']:
            raise Broken(f'the specimen {m.__name__} was not made: {ended} {_broken(lines)}')
    return place


def called(readers) -> set[tuple[str, int]]:
    """Return the functions of the package that are called to read the unchanged specimens: (file, first line)."""
    where = Path(tempfile.mkdtemp(prefix='srlviz-fuzz-'))
    try:
        place, found = make_specimens(readers, 1, where), set()
        for i, r in enumerate(readers):
            copy = shutil.copytree(place[r.make], where / 'copies' / str(i), symlinks=True)
            with Calls() as calls:
                r.touch(copy)
                if r.verify:
                    r.verify(copy)
            found |= calls.made
        return found
    finally:
        shutil.rmtree(where, ignore_errors=True)


def fuzz(
    readers, cases, seed: int = 0, jobs: int = 1, limit: float = LIMIT, on_result=lambda result: None
) -> list[Result]:
    """Run cases of readers, sorted by reader and case.

    Parameters
    ----------
    readers : of `readers.READERS`
    cases : reader -> numbers of cases
    on_result : called with each result when it arrives
    """
    where = Path(tempfile.mkdtemp(prefix='srlviz-fuzz-'))
    try:
        place = make_specimens(readers, jobs, where)

        def work(r, case, base):
            return lambda root, send: perform(r, case, seed, place[r.make], base, root, send)

        bases = {}
        for r, lines, ended in run_all([(r, work(r, None, {})) for r in readers], jobs, 6 * limit, where / 'base'):
            last = lines[-1] if lines else ''
            if (
                ended
                or _broken(lines)
                or not isinstance(last, dict)
                or last['error']
                or last['verdict'] in ('outside', 'ran', 'memory')
            ):
                raise Broken(f'the unchanged specimen of {r.name} cannot be read: {ended} {_broken(lines) or last}')
            bases[r] = last['parts']
        results = []
        pairs = sorted(
            ((i, c) for i, r in enumerate(readers) for c in cases(r)), key=lambda x: x[1]
        )  # by case, so that all readers start early
        todo = [((readers[i], c), work(readers[i], c, bases[readers[i]])) for i, c in pairs]
        for (r, c), lines, ended in run_all(todo, jobs, limit, where / 'cases'):
            results.append(_result(r, c, lines, ended, limit))
            on_result(results[-1])
        order = {r.name: i for i, r in enumerate(readers)}
        return sorted(results, key=lambda x: (order[x.reader], x.case))
    finally:
        shutil.rmtree(where, ignore_errors=True)


def _result(r, case, lines, ended, limit) -> Result:
    mutation = lines[0] if lines and isinstance(lines[0], str) else ''
    broken = _broken(lines) or ('' if mutation else f'the mutation did not end: {ended}')
    if broken:
        return Result(r.name, case, mutation, 'broken', broken, 0.0, 0.0)
    if len(lines) > 1:
        x = lines[1]
        return Result(r.name, case, mutation, x['verdict'], x['message'], round(x['seconds'], 2), round(x['mb'], 1))
    verdict, message = (
        ('hang', f'more than {limit:g} s') if ended == 'hang' else ('killed', ended or 'the process ended itself')
    )
    return Result(r.name, case, mutation, verdict, message, limit if ended == 'hang' else 0.0, 0.0)


def table(results: list[Result]):
    """Count verdicts: one row per reader, and their sum."""
    import pandas as pd

    counts = {}
    for r in results:
        counts.setdefault(r.reader, Counter())[r.verdict] += 1
    out = pd.DataFrame([[c[v] for v in VERDICTS] for c in counts.values()], index=list(counts), columns=list(VERDICTS))
    out.loc['all'] = out.sum()
    return out.rename_axis('reader')
