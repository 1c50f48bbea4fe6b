from otflam.core import Column as Column, UserError as UserError
from otflam.data import (
    Clips as Clips,
    Format as Format,
    Store as Store,
    StoreWriter as StoreWriter,
    export_data as export_data,
    import_data as import_data,
    register_format as register_format,
)
from otflam.envs import (
    Actions as Actions,
    Facts as Facts,
    Family as Family,
    World as World,
    make as make,
    register_world as register_world,
)
from otflam.lam import (
    METHODS as METHODS,
    LatentActionModel as LatentActionModel,
    Method as Method,
    Size as Size,
    label_data as label_data,
    register_method as register_method,
    train_on_dataset as train_on_dataset,
)
from otflam.policy import Agent as Agent, load as load, load_agent as load_agent
from otflam.presets import get_preset as get_preset
from otflam.tokenizer import Tokenizer as Tokenizer

__version__: str
