"""Sets of landings: made, read, verified, and in the published layout and LeRobot's."""

from srlviz.data.landing.fleet import generate_flights  # noqa: F401
from srlviz.data.landing.flights import flight_columns, flight_table, read_flights  # noqa: F401
from srlviz.data.lerobot import export_lerobot  # noqa: F401
from srlviz.data.landing.flight_folder import flight_seed, is_flights  # noqa: F401
from srlviz.data.landing.flights_0_2 import convert_flights  # noqa: F401
from srlviz.data.landing.published import export_published, read_published  # noqa: F401
from srlviz.data.landing.verify import verify_flights  # noqa: F401
