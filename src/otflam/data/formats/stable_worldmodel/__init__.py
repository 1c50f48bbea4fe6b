"""stable-worldmodel's HDF5 files, in and out."""

from otflam.data.formats.format import Format, register_format
from otflam.data.options import HDF5Import

register_format(
    Format(
        name="stable-worldmodel",
        what="an HDF5 file of stable-worldmodel",
        reads="otflam.data.formats.stable_worldmodel.columns:read_columns",
        writes="otflam.data.formats.stable_worldmodel.columns:write_columns",
        source="The .h5 file.",
        target="The .h5 file to write.",
        reading=HDF5Import,
        beside=True,
    )
)
