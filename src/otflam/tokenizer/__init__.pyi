from otflam.tokenizer.api import (
    Tokenizer as Tokenizer,
    find_tokenizer as find_tokenizer,
    packaged_tokenizer as packaged_tokenizer,
)
from otflam.tokenizer.build import (
    FRAMES_VERSION as FRAMES_VERSION,
    TOKENIZER_KIND as TOKENIZER_KIND,
    TOKENIZER_VERSION as TOKENIZER_VERSION,
    TOKENS as TOKENS,
    Seen as Seen,
    build_tokenizer as build_tokenizer,
    collapse_warning as collapse_warning,
    encode_data as encode_data,
    encode_frames as encode_frames,
    encode_store as encode_store,
    encode_with as encode_with,
    frame_clips as frame_clips,
    frame_error as frame_error,
    load_frame_tokenizer as load_frame_tokenizer,
    load_tokenizer as load_tokenizer,
    motion_clips as motion_clips,
    train_frame_tokenizer as train_frame_tokenizer,
    train_tokenizer as train_tokenizer,
    watch as watch,
)
from otflam.tokenizer.config import (
    PACKAGED as PACKAGED,
    CodebookConfig as CodebookConfig,
    DecoderConfig as DecoderConfig,
    FrameTokenizerConfig as FrameTokenizerConfig,
    TokenizerConfig as TokenizerConfig,
)
from otflam.tokenizer.frames import FrameTokenizer as FrameTokenizer
from otflam.tokenizer.mixing import (
    Gap as Gap,
    Portion as Portion,
    mix_motion as mix_motion,
    train_on_mixture as train_on_mixture,
)
from otflam.tokenizer.model import (
    OTF as OTF,
    MotionAutoencoder as MotionAutoencoder,
    bits_per_token as bits_per_token,
    code_weights as code_weights,
    count_codes as count_codes,
    noise_level as noise_level,
    placed_patches as placed_patches,
)
from otflam.tokenizer.quantize import Codebook as Codebook, Quantized as Quantized, kmeans as kmeans, overlap as overlap
