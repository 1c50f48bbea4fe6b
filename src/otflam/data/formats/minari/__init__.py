"""Minari's HDF5 data sets, in."""

from otflam.data.formats.format import Format, register_format
from otflam.data.options import HDF5Import

register_format(
    Format(
        name="minari",
        what="a Minari data set",
        reads="otflam.data.formats.minari.episodes:read_episodes",
        source="The folder of the data set, or its main_data.hdf5.",
        reading=HDF5Import,
    )
)
