from otflam.data import Clips as Clips, Store as Store
from otflam.envs import make as make
from otflam.lam import (
    METHODS as METHODS,
    LatentActionModel as LatentActionModel,
    Method as Method,
    Size as Size,
    register_method as register_method,
)
from otflam.policy import Agent as Agent, load as load, load_agent as load_agent
from otflam.presets import get_preset as get_preset
from otflam.tokenizer import Tokenizer as Tokenizer

__version__: str
