from otflam.data.clips import (
    SHARES as SHARES,
    Clips as Clips,
    DatasetClips as DatasetClips,
    RandomBatches as RandomBatches,
    batch_order as batch_order,
    labelled_episodes as labelled_episodes,
    split_episodes as split_episodes,
)
from otflam.data.collect import (
    SIMULATION as SIMULATION,
    collect_episodes as collect_episodes,
    collect_shards as collect_shards,
    has_distractors as has_distractors,
    has_rival as has_rival,
    recorded_collection as recorded_collection,
    render as render,
)
from otflam.data.compression import recompress as recompress
from otflam.data.decoding import (
    count_frames as count_frames,
    decode_pieces as decode_pieces,
    decode_video as decode_video,
    read_frames as read_frames,
)
from otflam.data.derived import (
    derive as derive,
    derive_shards as derive_shards,
    derived_stores as derived_stores,
    describe_rows as describe_rows,
    find_derived as find_derived,
    known_rows as known_rows,
)
from otflam.data.formats.exports import Beside as Beside
from otflam.data.formats.format import (
    FORMATS as FORMATS,
    Format as Format,
    export_data as export_data,
    import_data as import_data,
    register_format as register_format,
)
from otflam.data.formats.laom.trajectories import export_laom as export_laom
from otflam.data.masks import (
    BODIES as BODIES,
    MASKS as MASKS,
    make_masks as make_masks,
    mask_column as mask_column,
    moving_pixels as moving_pixels,
)
from otflam.data.mixture import COLOURS as COLOURS, Mixture as Mixture
from otflam.data.moving_mnist import DEFAULT_SEQUENCES as DEFAULT_SEQUENCES, make_moving_mnist as make_moving_mnist
from otflam.data.options import (
    Collection as Collection,
    MovingMNIST as MovingMNIST,
    MovingTextures as MovingTextures,
    VideoImport as VideoImport,
)
from otflam.data.pictures import Frame as Frame
from otflam.data.store import HEADER as HEADER, Column as Column, Store as Store, summarise as summarise
from otflam.data.textures import draw_scene as draw_scene, make_moving_textures as make_moving_textures
from otflam.data.writing import StoreWriter as StoreWriter
