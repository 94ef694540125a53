"""Recordings on disk: validated metadata, rows in Parquet, film and episodes."""

from .features import ENDINGS, FACTOR_FIELDS, KINDS, SPLITS, check_factors, check_rate, check_words  # noqa: F401
from .features import factor_label, films, stored_factor  # noqa: F401
from .manifest import LazyColumns, is_finished  # noqa: F401
from .streaming import described, merge_moments, moments  # noqa: F401
from .episode_files import partial_episodes, write_episode  # noqa: F401
from .recording_folder import RecordingFolder, finish_recording, read_episode, reopen_recording, write_recording  # noqa: F401
from .row_groups import from_arrow, to_arrow  # noqa: F401
