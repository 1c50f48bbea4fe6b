"""A LeRobot folder of one camera again with latent actions as its actions: python robot_latents.py IN OUT PRESET."""

import sys
from pathlib import Path

import otflam
from otflam.core import Hardware
from otflam.lam import train_lam

source, out, preset = sys.argv[1:]
work = Path("robot-latents")  # what is here already is not made again
data = otflam.import_data("lerobot", source, work / "data")
size = otflam.METHODS["lapo-fast"].sizes[preset]
last = len(data) - max(1, len(data) // 8)  # the others show whether the model is healthy
split = range(last), range(last, len(data))
train_lam("lapo-fast", data, split, size.model, size.train, Hardware(), work / "lam")
latents = otflam.label_data(data, work / "lam")
otflam.export_data("lerobot", data, out, {"latent": latents}, action="latent")
print(f"{out}: {len(data)} episodes, lapo-fast's latents as actions")
