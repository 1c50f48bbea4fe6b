import numpy as np
from dm_control import suite


class StateEnv:
    def __init__(self, task):
        d, t = task.split("-", 1)
        self.env = suite.load(d, t, task_kwargs=dict(random=0))
        ts = self.env.reset()
        self.observation_size = len(self._flat(ts.observation))
        self.action_size = self.env.action_spec().shape[0]
        self.episode_steps = 1000

    def _flat(self, o):
        return np.concatenate([np.ravel(o[k]) for k in sorted(o)]).astype(np.float32)

    def reset(self, seed):
        self.env.task.random.seed(np.random.SeedSequence(seed).generate_state(4))
        return self._flat(self.env.reset().observation)

    def step(self, a, repeat=1):
        r = 0.0
        for _ in range(repeat):
            ts = self.env.step(a)
            r += ts.reward
        return self._flat(ts.observation), r
