"""The commands: each is a frozen dataclass whose docstring is its line in the help and whose fields are its options.

Stages are imported only by the command that needs them, so that help is instant.
"""

from otflam.commands.base import Command
from otflam.commands.data import (
    Collect,
    DataCheck,
    DataCompress,
    DataInfo,
    DataMasks,
    DataMNIST,
    DataRender,
    DataTextures,
)
from otflam.commands.dino import DinoEncode, DinoPrepare
from otflam.commands.experts import ExpertCurve, ExpertEvaluate, ExpertTrain
from otflam.commands.formats import format_commands
from otflam.commands.hub import HubPull, HubPush
from otflam.commands.lam import LamAudit, LamExport, LamLabel, training_commands
from otflam.commands.lam_pictures import LamPredict, LamShow
from otflam.commands.own import DataCompare, Search, Suggest, TokenizerEvaluate
from otflam.commands.policy import EvaluateReturn, PolicyReference, PolicyRun, PolicyTrain
from otflam.commands.report import EvaluateAlignment, EvaluateCurves, Export, Report, Tables
from otflam.commands.tokenizer import Tokenize, TokenizerEncode, TokenizerShow, TokenizerTrain, TokenizerTrainFrames
from otflam.commands.tools import GL, Bench, Campaign, Completion, Demo, Reproduce

__all__ = ["COMMANDS", "CONTINUING", "Command"]

TRAININGS, FORMATS = training_commands(), format_commands()
COMMANDS: dict[str, type[Command]] = {
    "demo": Demo,
    "reproduce": Reproduce,
    "report": Report,
    "collect": Collect,
    "data info": DataInfo,
    "data check": DataCheck,
    "data compare": DataCompare,
    "data render": DataRender,
    "data masks": DataMasks,
    **FORMATS,
    "data mnist": DataMNIST,
    "data textures": DataTextures,
    "data compress": DataCompress,
    "tokenizer train": TokenizerTrain,
    "tokenizer train-frames": TokenizerTrainFrames,
    "tokenizer encode": TokenizerEncode,
    "tokenizer show": TokenizerShow,
    "tokenizer evaluate": TokenizerEvaluate,
    "tokenize": Tokenize,
    "search": Search,
    "suggest": Suggest,
    "dino prepare": DinoPrepare,
    "dino encode": DinoEncode,
    **TRAININGS,
    "lam label": LamLabel,
    "lam export": LamExport,
    "lam audit": LamAudit,
    "lam predict": LamPredict,
    "lam show": LamShow,
    "policy train": PolicyTrain,
    "policy reference": PolicyReference,
    "policy run": PolicyRun,
    "evaluate return": EvaluateReturn,
    "evaluate alignment": EvaluateAlignment,
    "evaluate curves": EvaluateCurves,
    "expert train": ExpertTrain,
    "expert evaluate": ExpertEvaluate,
    "expert curve": ExpertCurve,
    "hub push": HubPush,
    "hub pull": HubPull,
    "gl": GL,
    "bench": Bench,
    "campaign": Campaign,
    "tables": Tables,
    "export": Export,
    "completion": Completion,
}

CONTINUING = {
    *("demo", "reproduce", "collect", "data render", "data mnist", "data textures", "data compress"),
    *(name for name in FORMATS if name.startswith("data import")),
    *("tokenizer train", "tokenizer train-frames", "tokenizer encode", "dino encode", "expert train", "hub pull"),
    *(*TRAININGS, "lam label", "policy train", "policy reference"),
}
"""Commands that go on where they were stopped; all others start anew."""
