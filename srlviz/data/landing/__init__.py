"""Sets of landings: made, read, verified, and in the published layout and LeRobot's."""

from srlviz.data.landing.fleet import generate_flights  # noqa: F401
from srlviz.data.landing.flights import flight_columns, flight_table, is_flights, read_flights  # noqa: F401
from srlviz.data.lerobot import export_lerobot  # noqa: F401
from srlviz.data.landing.shards import flight_seed  # noqa: F401
from srlviz.data.landing.published import export_published, read_published  # noqa: F401
from srlviz.data.landing.verify import verify_flights  # noqa: F401
