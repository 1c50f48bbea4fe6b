from otflam.evaluate.alignment import (
    ALIGNMENT_VERSION as ALIGNMENT_VERSION,
    aligned_columns as aligned_columns,
    episodes_of as episodes_of,
    motion_column as motion_column,
)
from otflam.evaluate.ceilings import (
    CEILINGS_VERSION as CEILINGS_VERSION,
    read_ceilings as read_ceilings,
    read_innovations as read_innovations,
)
from otflam.evaluate.codes import (
    CODES_VERSION as CODES_VERSION,
    Tally as Tally,
    factor_metrics as factor_metrics,
    mean_energy as mean_energy,
    normalised_error as normalised_error,
    patch_kmeans_nmse as patch_kmeans_nmse,
    reconstruction as reconstruction,
)
from otflam.evaluate.control import (
    CONTROL_VERSION as CONTROL_VERSION,
    EVALUATION as EVALUATION,
    VALIDATION as VALIDATION,
    agent_world as agent_world,
    check_agent as check_agent,
    load_agent_for as load_agent_for,
    play as play,
    return_metrics as return_metrics,
)
from otflam.evaluate.extractors import judge_extractor as judge_extractor, load_extractor as load_extractor
from otflam.evaluate.innovation import (
    INNOVATION_VERSION as INNOVATION_VERSION,
    innovation_column as innovation_column,
)
from otflam.evaluate.leakage import leakage_metrics as leakage_metrics
from otflam.evaluate.names import (
    ALL_ACTIONS as ALL_ACTIONS,
    BASELINE as BASELINE,
    BODY_TRANSFER as BODY_TRANSFER,
    BOUNDS as BOUNDS,
    CONTROL as CONTROL,
    DIGIT_TRANSFER as DIGIT_TRANSFER,
    DIGITS as DIGITS,
    FINETUNE as FINETUNE,
    GROUNDED as GROUNDED,
    IDM as IDM,
    LABELS_ONLY as LABELS_ONLY,
    NOISY as NOISY,
    OURS as OURS,
    REFERENCES as REFERENCES,
    RELABEL as RELABEL,
    SUPERVISED as SUPERVISED,
    TASKS as TASKS,
    TUNED as TUNED,
    UNTRAINED as UNTRAINED,
    VANILLA as VANILLA,
    WORDS as WORDS,
    named as named,
    task_of as task_of,
    world_of as world_of,
)
from otflam.evaluate.probes import read_actions as read_actions
from otflam.evaluate.records import (
    Cell as Cell,
    Metrics as Metrics,
    find_record as find_record,
    finite as finite,
    read_records as read_records,
    write_record as write_record,
)
from otflam.evaluate.results import (
    SAME as SAME,
    Earned as Earned,
    Records as Records,
    best_by_return as best_by_return,
    chosen as chosen,
    complete as complete,
    control_mse as control_mse,
    decoding_gap as decoding_gap,
    difference as difference,
    distracted as distracted,
    earned as earned,
    group as group,
    main_budget as main_budget,
    network_gap as network_gap,
    over as over,
    over_draws as over_draws,
    paired_tokenizers as paired_tokenizers,
    returns_of as returns_of,
    seed_gap as seed_gap,
    share_of as share_of,
    share_of_bound as share_of_bound,
    sized as sized,
    starts_of as starts_of,
    usual as usual,
    values as values,
)
from otflam.evaluate.starts import (
    STARTS_VERSION as STARTS_VERSION,
    Stretches as Stretches,
    start_metrics as start_metrics,
)
from otflam.evaluate.stats import (
    Estimate as Estimate,
    bootstrap_interval as bootstrap_interval,
    estimate as estimate,
    interquartile_mean as interquartile_mean,
    rms_deviation as rms_deviation,
)
from otflam.evaluate.transfer import transfer_metrics as transfer_metrics
