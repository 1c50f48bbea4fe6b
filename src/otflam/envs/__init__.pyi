from otflam.envs.backgrounds import open_backgrounds as open_backgrounds
from otflam.envs.experts import (
    POLICIES as POLICIES,
    expert_about as expert_about,
    expert_returns as expert_returns,
    load_expert as load_expert,
    make_policy as make_policy,
    packaged_experts as packaged_experts,
    parse_mix as parse_mix,
)
from otflam.envs.gl import ensure_gl as ensure_gl
from otflam.envs.recipe import Recipe as Recipe
from otflam.envs.rollout import (
    Observation as Observation,
    Policy as Policy,
    episode_seed as episode_seed,
    play_episode as play_episode,
    play_together as play_together,
    policy_rng as policy_rng,
    return_from as return_from,
    state_return as state_return,
)
from otflam.envs.simulation import Simulation as Simulation
from otflam.envs.suite import ControlEnv as ControlEnv, make as make
from otflam.envs.training import train_expert as train_expert
from otflam.envs.world import Difficulty as Difficulty, Quality as Quality, Split as Split, World as World
