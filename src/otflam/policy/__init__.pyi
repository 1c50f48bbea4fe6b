from otflam.policy.agent import (
    AGENT_KIND as AGENT_KIND,
    AGENT_VERSION as AGENT_VERSION,
    Agent as Agent,
    describe_agent as describe_agent,
    load as load,
    load_agent as load_agent,
)
from otflam.policy.clone import (
    ACTIONS as ACTIONS,
    CLONE_KIND as CLONE_KIND,
    CLONE_VERSION as CLONE_VERSION,
    Clone as Clone,
    Target as Target,
    stack_offsets as stack_offsets,
    train_clone as train_clone,
)
from otflam.policy.config import (
    PARTS as PARTS,
    ActionDecoderConfig as ActionDecoderConfig,
    ActorConfig as ActorConfig,
    PolicyConfig as PolicyConfig,
    way_of as way_of,
)
from otflam.policy.decode import (
    DECODER_VERSION as DECODER_VERSION,
    ActionDecoder as ActionDecoder,
    Pairs as Pairs,
    guess_from_frames as guess_from_frames,
    held_out_error as held_out_error,
    seen_frames as seen_frames,
    train_decoder as train_decoder,
)
from otflam.policy.spaces import ActionSpace as ActionSpace, LatentSpace as LatentSpace
from otflam.policy.train import (
    SEEN_AHEAD as SEEN_AHEAD,
    AgentPlan as AgentPlan,
    Episodes as Episodes,
    Grounding as Grounding,
    Splits as Splits,
    clone_key as clone_key,
    train_agent as train_agent,
    train_reference as train_reference,
)
