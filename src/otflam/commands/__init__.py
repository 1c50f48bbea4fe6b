"""The commands: each is a frozen dataclass whose docstring is its line in the help and whose fields are its options.

Stages are imported only by the command that needs them, so that help is instant.
"""

from otflam.commands.base import Command
from otflam.commands.data import (
    Collect,
    DataCheck,
    DataInfo,
    DataMasks,
    DataMNIST,
    DataRender,
    ExportLAOM,
    ImportLAOM,
    ImportVideos,
)
from otflam.commands.dino import DinoEncode, DinoPrepare
from otflam.commands.experts import ExpertCurve, ExpertEvaluate, ExpertTrain
from otflam.commands.lam import LamAudit, LamExport, LamLabel, LamPredict, LamShow, training_commands
from otflam.commands.own import DataCompare, Search, Suggest
from otflam.commands.policy import EvaluateReturn, PolicyReference, PolicyRun, PolicyTrain
from otflam.commands.report import EvaluateAlignment, EvaluateCurves, Export, Report, Tables
from otflam.commands.tokenizer import Tokenize, TokenizerEncode, TokenizerShow, TokenizerTrain, TokenizerTrainFrames
from otflam.commands.tools import GL, Bench, Campaign, Demo, Reproduce

__all__ = ["COMMANDS", "CONTINUING", "Command"]

TRAININGS = training_commands()
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
    "data import videos": ImportVideos,
    "data import laom": ImportLAOM,
    "data export laom": ExportLAOM,
    "data mnist": DataMNIST,
    "tokenizer train": TokenizerTrain,
    "tokenizer train-frames": TokenizerTrainFrames,
    "tokenizer encode": TokenizerEncode,
    "tokenizer show": TokenizerShow,
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
    "gl": GL,
    "bench": Bench,
    "campaign": Campaign,
    "tables": Tables,
    "export": Export,
}

CONTINUING = {
    *("demo", "reproduce", "collect", "data render", "data import videos", "data import laom", "data mnist"),
    *("tokenizer train", "tokenizer train-frames", "tokenizer encode", "dino encode", "expert train"),
    *(*TRAININGS, "lam label", "policy train", "policy reference"),
}
"""Commands that go on where they were stopped; all others start anew."""
