from otflam.lam.api import LatentActionModel as LatentActionModel
from otflam.lam.audit import (
    AUDITS as AUDITS,
    audit_trained as audit_trained,
    audit_verdict as audit_verdict,
    frozen_future as frozen_future,
)
from otflam.lam.build import LAM_KIND as LAM_KIND, build_lam as build_lam, load_lam as load_lam
from otflam.lam.features import (
    FEATURES as FEATURES,
    Backbone as Backbone,
    features_cost as features_cost,
    store_features as store_features,
)
from otflam.lam.flam.model import IMAGINED as IMAGINED, Flam as Flam
from otflam.lam.health import HELD_OUT as HELD_OUT, LEAST_GAIN as LEAST_GAIN
from otflam.lam.hilam.model import Hilam as Hilam
from otflam.lam.imgfocus import NAME as NAME, prepare as prepare
from otflam.lam.label import (
    CPU as CPU,
    LABEL_VERSION as LABEL_VERSION,
    LATENTS as LATENTS,
    derive_with as derive_with,
    export_latents as export_latents,
    has_base as has_base,
    label_base as label_base,
    label_data as label_data,
    label_store as label_store,
)
from otflam.lam.labels import (
    WEIGHT as WEIGHT,
    Labels as Labels,
    labels_of as labels_of,
    with_labels as with_labels,
)
from otflam.lam.method import (
    METHODS as METHODS,
    Base as Base,
    Method as Method,
    ModelConfig as ModelConfig,
    Size as Size,
    low_level as low_level,
    register_method as register_method,
)
from otflam.lam.model import LAM as LAM, Parts as Parts
from otflam.lam.otf_lam.codes import CodeLAM as CodeLAM
from otflam.lam.train import LAM_VERSION as LAM_VERSION, train_lam as train_lam, train_on_dataset as train_on_dataset
