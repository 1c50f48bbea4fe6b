from otflam.core.augment import shift_clips as shift_clips, warp_clips as warp_clips, warp_images as warp_images
from otflam.core.batch import (
    BATCH as BATCH,
    Batch as Batch,
    Terms as Terms,
    clip_batches as clip_batches,
    interleave as interleave,
    windows as windows,
)
from otflam.core.card import card_table as card_table, front_matter as front_matter, use_command as use_command
from otflam.core.config import (
    ADDED as ADDED,
    SMALLER_STEPS as SMALLER_STEPS,
    Hardware as Hardware,
    TrainConfig as TrainConfig,
    from_json as from_json,
    stable_hash as stable_hash,
    to_json as to_json,
    versions as versions,
)
from otflam.core.errors import (
    BusyError as BusyError,
    UserError as UserError,
    first_line as first_line,
    require_name as require_name,
    unknown_name as unknown_name,
)
from otflam.core.extras import missing_extra as missing_extra, require_package as require_package
from otflam.core.files import (
    LOCK as LOCK,
    READ_ONLY as READ_ONLY,
    clear_temporary as clear_temporary,
    digest_file as digest_file,
    digest_files as digest_files,
    disk_errors as disk_errors,
    find_files as find_files,
    lock_folder as lock_folder,
    parse_json as parse_json,
    read_json as read_json,
    replacing as replacing,
    retry_busy as retry_busy,
    write_json as write_json,
    write_text as write_text,
)
from otflam.core.hub import (
    find_folder as find_folder,
    pulling as pulling,
    push_files as push_files,
)
from otflam.core.machine import (
    Machine as Machine,
    device_of as device_of,
    launch as launch,
    place_of as place_of,
)
from otflam.core.media import (
    DAMAGED as DAMAGED,
    open_image as open_image,
    open_video as open_video,
    read_arrays as read_arrays,
    read_bytes as read_bytes,
    reason as reason,
    video_stream as video_stream,
)
from otflam.core.nn import (
    CODE_DEVIATION as CODE_DEVIATION,
    IMPALA as IMPALA,
    QUERY_GAIN as QUERY_GAIN,
    SMALL_DEVIATION as SMALL_DEVIATION,
    Attention as Attention,
    Block as Block,
    Pointwise as Pointwise,
    conv_encoder as conv_encoder,
    grow as grow,
    require_square as require_square,
    shrink as shrink,
    start_orthogonal as start_orthogonal,
)
from otflam.core.pool import (
    STOPPING as STOPPING,
    Failure as Failure,
    Launcher as Launcher,
    default_workers as default_workers,
    delay_interrupts as delay_interrupts,
    is_main_process as is_main_process,
    run_jobs as run_jobs,
)
from otflam.core.pretrained import (
    Pretrained as Pretrained,
    check_release as check_release,
    push_release as push_release,
)
from otflam.core.processor import (
    bfloat16 as bfloat16,
    keep_freed_memory as keep_freed_memory,
    use_one_thread as use_one_thread,
    use_threads as use_threads,
)
from otflam.core.progress import SILENT as SILENT, Progress as Progress
from otflam.core.release import (
    DIGEST as DIGEST,
    WEIGHTS as WEIGHTS,
    check_digest as check_digest,
    first_not_finite as first_not_finite,
    load_model as load_model,
    load_weights as load_weights,
    read_release as read_release,
    release_hash as release_hash,
    save_weights as save_weights,
)
from otflam.core.run import (
    METRICS as METRICS,
    Run as Run,
    learning_curve as learning_curve,
    read_metrics as read_metrics,
    training_seconds as training_seconds,
)
from otflam.core.surface import import_name as import_name, load_plugins as load_plugins, register as register
from otflam.core.train import (
    Feed as Feed,
    fit as fit,
    gather_rows as gather_rows,
    leave_process_group as leave_process_group,
    make_optimiser as make_optimiser,
    sum_over_processes as sum_over_processes,
    train_into as train_into,
    train_step as train_step,
)
from otflam.core.types import HEADER as HEADER, Column as Column, Episode as Episode
