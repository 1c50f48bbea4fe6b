"""Stage 9: whole stories out of the stages: the demo, the benchmarks, the paper's tables and figures."""
