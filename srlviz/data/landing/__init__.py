"""Sets of landings: made, read, verified, and in the published layout."""

from srlviz.data.landing.flights import (  # noqa: F401
    flight_columns,
    flight_seed,
    flight_table,
    generate_flights,
    read_flights,
    verify_flights,
)
from srlviz.data.landing.published import export_lerobot, export_published, read_published  # noqa: F401
