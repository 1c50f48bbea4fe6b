"""LAOM's HDF5 files, in and out."""

from otflam.data.formats.format import Format, register_format

register_format(
    Format(
        name="laom",
        what="a LAOM HDF5 file",
        reads="otflam.data.formats.laom.trajectories:read_laom",
        writes="otflam.data.formats.laom.trajectories:write_laom",
        source="The .hdf5 file.",
        target="The .hdf5 file to write.",
        needs="The data set; it needs frames, states and actions.",
    )
)
