"""The declaration of the control suite: the tasks of dm_control, seen through distractors."""

from otflam.envs.families import EXPERT, Family, register_world

register_world(
    Family(
        name="control suite",
        tasks="otflam.envs.simulation:TASKS",
        open="otflam.envs.suite:ControlEnv",
        simulate="otflam.envs.simulation:Simulation",
        policies={EXPERT: "otflam.envs.experts:fitting_expert"},
        packaged="otflam.envs.experts:packaged_experts",
    )
)
