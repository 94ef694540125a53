"""Films of other people: any codec, container and size, headers that turn the picture, and files that would do harm."""

import io
import os
from fractions import Fraction

import av
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from test_foreign_bounds import assert_refused as assert_bounded

from srlviz.core.recordings import Recording
from srlviz.data.importers import Video, add_video, load_csv, load_lerobot
from srlviz.data.lerobot import export_lerobot
from srlviz.core.storage.video import FilmFile, encode_film


def write_film(path, codec, frames, pix_fmt='yuv420p', rate=10, matrix=None, times=None, options=None, **encoder):
    "Write frames (T, H, W, 3) with a codec; the ending of the path decides the container"
    with av.open(str(path), 'w', options=options or {}) as container:
        s = container.add_stream(codec, rate=Fraction(rate), options=encoder)
        s.height, s.width, s.pix_fmt = *frames.shape[1:3], pix_fmt
        if matrix is not None:
            s.set_display_matrix(matrix)
        for i, x in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(x, format='rgb24').reformat(format=pix_fmt)
            if times is not None:
                frame.pts, frame.time_base = times[i], 1 / Fraction(rate)
            container.mux(s.encode(frame))
        container.mux(s.encode())
    release_priority()
    return path


def release_priority():
    """End the real-time priority that SVT-AV1 gives to the thread that opens it, if root does.

    Every process that the tests start afterwards would have it, too, and keep all others of the machine waiting.
    """
    if hasattr(os, 'sched_setscheduler') and os.sched_getscheduler(0) != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def brighter(n, height, width):
    "Frames that become brighter by 10 levels each"
    return np.broadcast_to(np.arange(n, dtype=np.uint8)[:, None, None, None] * 10, (n, height, width, 3))


def light(frames):
    return [round(float(f.mean()) / 10) for f in frames]


def decoded(path):
    "All frames, one after another, as PyAV decodes them"
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format='rgb24') for frame in container.decode(video=0)])


def rows(n, **facts):
    return Recording.from_arrays(np.zeros((n, 1)), hz=10, **facts)


# ---- codecs, sizes and containers

CODECS = [
    ('mpeg4', 'a.mp4', 'yuv420p'),
    ('mpeg4', 'a.avi', 'yuv420p'),
    ('msmpeg4', 'a.avi', 'yuv420p'),
    ('wmv2', 'a.wmv', 'yuv420p'),
    ('flv', 'a.flv', 'yuv420p'),
    ('mjpeg', 'a.avi', 'yuvj420p'),
    ('libvpx', 'a.webm', 'yuv420p'),
    ('libvpx-vp9', 'a.webm', 'yuv420p'),
    ('libx264', 'a.mp4', 'yuv444p'),
    ('libx265', 'a.mp4', 'yuv420p'),
    ('libsvtav1', 'a.mkv', 'yuv420p'),
    ('ffv1', 'a.mkv', 'yuv420p'),
    ('png', 'a.mov', 'rgba'),
    ('prores', 'a.mov', 'yuv422p10le'),
]


@pytest.mark.parametrize('codec, name, pix_fmt', CODECS)
def test_small_films_of_any_codec_are_read(tmp_path, codec, name, pix_fmt):
    if codec not in av.codecs_available:
        pytest.skip(f"this FFmpeg does not write {codec}")
    needs_16 = codec in ('libx265', 'libsvtav1')
    for height, width in ((16, 16), (84, 84), (210, 160), *([] if needs_16 else [(2, 2), (2, 300)])):
        path = write_film(tmp_path / name, codec, brighter(6, height, width), pix_fmt)
        video = Video(path)
        assert video.shape == (6, height, width, 3) and video.hz == 10
        np.testing.assert_array_equal(video[:], decoded(path))
        np.testing.assert_array_equal(video[4], decoded(path)[4])
    if hasattr(os, 'sched_getscheduler'):
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


@pytest.mark.parametrize('rate', ['10', '30000/1001'])
@pytest.mark.parametrize(
    'codec, name, options',
    [
        ('libx264', 'a.mkv', {}),
        ('libvpx', 'a.webm', {}),
        ('libx264', 'a.mp4', dict(movflags='frag_keyframe+empty_moov')),
        ('libx264', 'a.ts', {}),
        ('libx264', 'a.flv', {}),
        ('mpeg2video', 'a.mpg', {}),
    ],
)
def test_films_that_declare_no_number_of_frames_are_counted(tmp_path, codec, name, options, rate):
    "Most of these show their first frame after zero seconds, and some have times of whole milliseconds"
    path = write_film(tmp_path / name, codec, brighter(24, 32, 48), rate=rate, options=options, g='10')
    video = Video(path)
    assert len(video) == 24 and video.hz == pytest.approx(float(Fraction(rate)), rel=1e-3)
    assert light(video[[23, 11, 0, 12]]) == [23, 11, 0, 12]


def test_frames_that_are_stored_in_another_order_are_found(tmp_path):
    "B frames, and groups that are not closed: the frame before a key frame is stored after it"
    options = {'bf': '3', 'g': '10', 'x264-params': 'open-gop=1:scenecut=0'}
    path = write_film(tmp_path / 'a.mp4', 'libx264', brighter(24, 32, 32), **options)
    video = Video(path)
    assert [light(video[[i]]) for i in range(24)] == [[i] for i in range(24)]


def test_a_pause_in_a_film_is_refused(tmp_path):
    path = write_film(tmp_path / 'a.mkv', 'libx264', brighter(6, 32, 32), times=[0, 1, 2, 9, 10, 11], bf='0')
    with pytest.raises(ValueError, match='a.mkv .*6 frames.*constant rate'):
        Video(path)


# ---- films that are to be turned

ONE = 1 << 16
TURNS = {
    'none': ((ONE, 0, 0, ONE), lambda x: x),
    '90': ((0, ONE, -ONE, 0), lambda x: np.rot90(x, -1)),
    '180': ((-ONE, 0, 0, -ONE), lambda x: np.rot90(x, 2)),
    '270': ((0, -ONE, ONE, 0), lambda x: np.rot90(x, 1)),
    'mirror': ((-ONE, 0, 0, ONE), lambda x: x[:, ::-1]),
    'upside down': ((ONE, 0, 0, -ONE), lambda x: x[::-1]),
    'mirror and 90': ((0, ONE, ONE, 0), lambda x: x.swapaxes(0, 1)),
    'zeros': ((0, 0, 0, 0), lambda x: x),
}


@pytest.mark.parametrize('name', ['film.mp4', 'film.mkv'])
@pytest.mark.parametrize('n', [30, 400])
def test_a_lost_frame_in_a_film_is_refused_and_moves_no_other(tmp_path, name, n):
    path = tmp_path / name
    times = [*range(n // 2), *range(n // 2 + 1, n + 1)]  # of 10 Hz; the mean rate is near enough to place each frame
    write_film(path, 'mpeg4', brighter(n, 32, 32), times=times)
    with pytest.raises(ValueError, match=f'{name} .* {n} frames .* lost after frame {n // 2 - 1}, .*fps_mode cfr'):
        Video(path)


def test_rounded_times_of_a_film_lack_no_frames(tmp_path):
    path = tmp_path / 'film.mkv'
    write_film(path, 'mpeg4', brighter(30, 32, 32), rate=Fraction(30000, 1001))  # in whole milliseconds
    assert len(Video(path)) == 30 and abs(Video(path).hz - 29.97) < 0.01


def turned_film(path, a, b, c, d):
    "A film of 12 frames, 32 x 48, of a bright corner, whose header has a matrix"
    frames = np.zeros((12, 32, 48, 3), np.uint8)
    frames[:, :16, :16] = 240
    return write_film(path, 'libx264', frames, matrix=[a, b, 0, c, d, 0, 0, 0, 1 << 30])


@pytest.mark.parametrize('name', ['a.mp4', 'a.mov'])
@pytest.mark.parametrize('turn', TURNS)
def test_frames_are_upright(tmp_path, turn, name):
    matrix, shown = TURNS[turn]
    path = turned_film(tmp_path / name, *matrix)
    upright = np.stack([shown(x) for x in decoded(path)])
    frames = add_video(rows(12), path)[0].obs['frame']
    assert frames.shape == upright.shape
    np.testing.assert_array_equal(frames[:], upright)
    np.testing.assert_array_equal(frames[7:9], upright[7:9])


@pytest.mark.parametrize('matrix', [(56755, 32767, -32767, 56755), (ONE, 0, ONE, 0), (ONE, 0, ONE, ONE)])
def test_an_oblique_turn_is_refused(tmp_path, matrix):
    path = turned_film(tmp_path / 'a.mp4', *matrix)
    pd.DataFrame(dict(x=range(12))).to_csv(tmp_path / 'a.csv', index=False)
    for load in (lambda: Video(path), lambda: load_csv(tmp_path / 'a.csv', video=path)):
        with pytest.raises(ValueError, match=r'a.mp4 turns its frames by -?\d+ degrees.*90; `ffmpeg'):
            load()


def test_lerobot_shows_a_turned_film_upright(tmp_path):
    frames = np.zeros((12, 32, 48, 3), np.uint8)
    recording = Recording.from_arrays({'frame': frames}, hz=10)
    path = next(export_lerobot(recording, tmp_path / 'set', progress=False).rglob('*.mp4'))
    turned_film(path, 0, ONE, -ONE, 0)
    frames = load_lerobot(tmp_path / 'set')[0].obs['frame']
    assert frames.shape == (12, 48, 32, 3) and frames[5][4, -4].min() > 200


def test_pictures_of_a_camera_that_was_turned_are_upright(tmp_path):
    "Motion JPEG with orientation in EXIF, a kind of side data that PyAV does not know"
    exif = Image.Exif()
    exif[0x112] = 6  # to be turned by 90 degrees, clockwise
    corner = np.zeros((32, 48, 3), np.uint8)
    corner[:16, :16] = 240
    picture = io.BytesIO()
    Image.fromarray(corner).save(picture, 'JPEG', exif=exif)
    with av.open(str(tmp_path / 'a.avi'), 'w') as container:
        s = container.add_stream('mjpeg', rate=10)
        s.height, s.width, s.pix_fmt = 32, 48, 'yuvj420p'
        for i in range(6):
            packet = av.Packet(picture.getvalue())
            packet.stream, packet.pts, packet.dts, packet.time_base = s, i, i, Fraction(1, 10)
            packet.is_keyframe = True
            container.mux(packet)
    video = Video(tmp_path / 'a.avi')
    assert video.shape == (6, 48, 32, 3) and video[3][4, -4].min() > 200 and video[3][-4, -4].max() < 40


# ---- faults: the file is named, and nobody is told to delete a film of theirs


def assert_refused(call, match):
    with pytest.raises(ValueError, match=match) as e:
        call()
    assert 'delete' not in str(e.value) and 'seed' not in str(e.value) and '\n' not in str(e.value)


def test_faults_of_films_of_ones_own_never_advise_to_delete_them(tmp_path):
    path = tmp_path / 'a.mp4'
    whole = encode_film(brighter(20, 32, 32), 10)
    path.write_bytes(whole[: len(whole) // 2])
    assert_refused(lambda: Video(path), 'a.mp4 .*ffmpeg')
    assert_refused(lambda: Video(tmp_path / 'none.mp4'), 'none.mp4 .*missing')
    path.write_bytes(whole)
    video, recording = Video(path), add_video(rows(20), path)
    path.write_bytes(encode_film(brighter(12, 32, 32), 10))
    for call in (lambda: video[0], lambda: video.check(), lambda: recording[0].obs['frame'][3]):
        assert_refused(call, 'a.mp4 holds 12 frames of 32 x 32, it had 20 frames of 32 x 32')
    damaged = bytearray(whole)
    start = damaged.index(b'mdat')
    damaged[start + 400 : start + 4000] = bytes(len(damaged[start + 400 : start + 4000]))
    path.write_bytes(damaged)
    assert_refused(lambda: video[:], 'a.mp4 .*ffmpeg')
    path.unlink()
    assert_refused(lambda: video[:], 'a.mp4 .*missing')


def test_sets_of_this_kit_are_advised_to_be_made_again(tmp_path):
    (tmp_path / 'a.mp4').write_bytes(encode_film(brighter(12, 32, 32), 10))
    with pytest.raises(ValueError, match='a.mp4 holds 12 frames.*its episode has 20 rows.*delete.*seed'):
        FilmFile(tmp_path / 'a.mp4', (20, 32, 32, 3))[0]


def test_a_film_with_fewer_frames_than_declared_is_refused(tmp_path):
    film = bytearray(encode_film(brighter(20, 32, 32), 10))
    start = film.index(b'stsz')
    film[start + 16 + 4 * 12 : start + 16 + 4 * 20] = bytes(4 * 8)
    (tmp_path / 'a.mp4').write_bytes(film)
    assert_refused(lambda: Video(tmp_path / 'a.mp4'), 'a.mp4 declares 20 frames and holds 12')


@pytest.mark.parametrize('side, why', [(64, 'a frame of 64 x 64 among those of 32 x 32'), (2048, '')])
@pytest.mark.parametrize('codec', ['libx264', 'mpeg2video'])
def test_a_film_whose_frames_suddenly_grow_is_refused(tmp_path, codec, side, why):
    "Frames of 2048 x 2048 are not even decoded"
    with av.open(str(tmp_path / 'a.ts'), 'w') as container:
        s = container.add_stream(codec, rate=10, options=dict(bf='0'))
        s.height, s.width, s.pix_fmt = 32, 32, 'yuv420p'
        large = av.CodecContext.create(codec, 'w')
        large.height, large.width, large.pix_fmt = side, side, 'yuv420p'
        large.time_base, large.framerate, large.options = Fraction(1, 10), Fraction(10), dict(bf='0')
        for encoder, size, times in ((s, 32, range(100)), (large, side, range(100, 104))):
            for t in times:
                frame = av.VideoFrame.from_ndarray(np.zeros((size, size, 3), np.uint8), format='rgb24')
                frame = frame.reformat(format='yuv420p')
                frame.pts, frame.time_base = t, Fraction(1, 10)
                mux(container, s, encoder.encode(frame))
            mux(container, s, encoder.encode(None))
    video = Video(tmp_path / 'a.ts')
    assert video.shape == (104, 32, 32, 3) and video[90].shape == (32, 32, 3)
    assert_refused(lambda: video[102], f'a.ts is damaged.*{why}')


def mux(container, stream, packets):
    for packet in packets:
        packet.stream = stream
        container.mux(packet)


def test_a_film_that_declares_a_huge_size_is_refused(tmp_path):
    path = write_film(tmp_path / 'a.avi', 'rawvideo', brighter(3, 16, 16))
    film = bytearray(path.read_bytes())
    start = film.index(b'strf') + 12  # width and height
    film[start : start + 8] = (6_000).to_bytes(4, 'little') * 2
    path.write_bytes(film)
    assert_refused(lambda: Video(path), 'a.avi .*declares frames of 6000 x 6000')


def test_a_header_that_declares_more_than_two_gigabytes_is_refused_and_takes_no_memory(tmp_path):
    path = tmp_path / 'film.mp4'
    film = bytearray(encode_film(brighter(4, 32, 32)))
    place = film.index(b'stts') + 8
    film[place : place + 4] = (2**32 - 1).to_bytes(4)  # entries of eight bytes each
    path.write_bytes(film)
    assert_bounded(
        path, 'declares a part of more than 2 GB', lambda: FilmFile(path, (4, 32, 32, 3))[0], max_bytes=2**26
    )
