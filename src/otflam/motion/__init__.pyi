from otflam.motion.config import MotionConfig as MotionConfig, Transform as Transform
from otflam.motion.signal import TRANSFORMS as TRANSFORMS, motion as motion, motion_of_sequence as motion_of_sequence
