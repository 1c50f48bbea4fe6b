"""Own videos and folders of images, in."""

from otflam.data.formats.format import Format, register_format
from otflam.data.options import VideoImport

register_format(
    Format(
        name="videos",
        what="your own video files or frame folders",
        reads="otflam.data.formats.videos.sources:import_videos",
        source="A folder of videos or of image folders, or one video file.",
        reading=VideoImport,
    )
)
