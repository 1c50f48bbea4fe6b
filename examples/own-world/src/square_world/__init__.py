"""The declaration: light, so that help is instant."""

from otflam import Family, register_world

TASKS = ("square-home",)

register_world(
    Family(
        name="square world",
        tasks=TASKS,
        open="square_world.world:SquareWorld",
        policies={"expert": "square_world.world:make_expert"},
        packaged="square_world.world:tasks_with_expert",
    )
)
