"""The papers' benchmarks: run a data set by a paper's protocol, and put the published figures beside the measured."""
