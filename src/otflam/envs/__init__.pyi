from otflam.envs.backgrounds import open_backgrounds as open_backgrounds
from otflam.envs.distractors import level_of as level_of
from otflam.envs.environment import (
    AGENT as AGENT,
    RIVAL as RIVAL,
    Actions as Actions,
    Environment as Environment,
    Facts as Facts,
    Simulated as Simulated,
    make as make,
    masked as masked,
    open_world as open_world,
    restorable as restorable,
    simulate_world as simulate_world,
)
from otflam.envs.experts import expert_about as expert_about, load_expert as load_expert
from otflam.envs.gl import ensure_gl as ensure_gl
from otflam.envs.libenv import INSTALL_GAMES as INSTALL_GAMES, games_installed as games_installed
from otflam.envs.recipe import Recipe as Recipe
from otflam.envs.rival import (
    RIVAL_ACTIONS as RIVAL_ACTIONS,
    RIVAL_STATES as RIVAL_STATES,
    rival_policy as rival_policy,
    rival_rng as rival_rng,
)
from otflam.envs.rollout import (
    Observation as Observation,
    Policy as Policy,
    episode_seed as episode_seed,
    expert_returns as expert_returns,
    make_policy as make_policy,
    parse_mix as parse_mix,
    play_episode as play_episode,
    play_together as play_together,
    policy_returns as policy_returns,
    policy_rng as policy_rng,
    return_from as return_from,
)
from otflam.envs.training import learned_by as learned_by, train_expert as train_expert
from otflam.envs.world import (
    Difficulty as Difficulty,
    Family as Family,
    Follow as Follow,
    Quality as Quality,
    RivalColour as RivalColour,
    Split as Split,
    World as World,
    can_simulate as can_simulate,
    has_expert as has_expert,
    policy_names as policy_names,
    register_world as register_world,
)
