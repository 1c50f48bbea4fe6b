"""LeRobot's folders: v3.0 in and out, v2.0 and v2.1 in; tables are parquet, pictures are films or lie in the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from otflam.data.formats.format import Format, register_format


@dataclass(frozen=True)
class LeRobotImport:
    camera: tuple[str, ...] = ()
    """Cameras to read, as the folder calls them or by the last part of that; by default all."""
    views: Literal["apart", "tiled"] = "apart"
    """Several cameras become a data set each, in folders of their names in OUT; or tiles of one picture."""
    size: int = 64
    """Height and width of the stored frames."""
    fit: Literal["crop", "pad"] = "crop"
    """Make frames square by cutting the longer side at its centre, or by adding black bars."""
    episodes: int = 0
    """Only this many episodes, from the first on; 0: all."""


@dataclass(frozen=True)
class LeRobotExport:
    video: Literal["lossless", "h264", "av1", "images"] = "lossless"
    """lossless films keep every bit (H.264 of RGB), h264 and av1 are small and lossy; images are PNG in the tables."""
    action: Literal["recorded", "latent"] = "recorded"
    """What the feature action holds; as latent actions, recorded ones become recorded_action, and frames without a
    latent, at the end of an episode, are left out."""
    camera: str | None = None
    """Name of the camera; by default that of the import, or observation.images.main."""
    fps: float | None = None
    """Frames a second; by default as the data say."""
    task: str | None = None
    """What is done in all episodes, in words; by default as the data say."""
    robot: str | None = None
    """Type of the robot; by default as the data say."""
    files_per_chunk: int = 1000
    """Files in a folder."""
    data_mb: float = 100.0
    """Size of a table at which a new one is begun."""
    video_mb: float = 200.0
    """Size of a film at which a new one is begun."""


register_format(
    Format(
        name="lerobot",
        what="a LeRobot folder",
        reads="otflam.data.formats.lerobot.reading:import_lerobot",
        writes="otflam.data.formats.lerobot.writing:export_lerobot",
        source="The folder, of version 3.0, 2.1 or 2.0.",
        target="The new folder, of version 3.0.",
        needs="The data set; it needs frames with three colours.",
        reading=LeRobotImport,
        writing=LeRobotExport,
        beside=True,
    )
)
