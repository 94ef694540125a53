"""Code and numbers that are not ours, or that are slow and plain: what the tests compare the kit with.

- `plain_dnc`: the differentiable neural computer, one equation after the other; reference of `srlviz.memories.dnc`
- `popgym_memories_attention`, `popgym_memories_recurrent`, `popgym_memories_rllib`: popgym's memory models with the
  weights of ours; reference of `srlviz.memories`
- `popgym_moments`: the state of a popgym environment copied into ours; reference of `srlviz.envs.pomdp`
- `rliable_returns` (.py, .json): aggregate scores and intervals by rliable 1.2.0; reference of
  `srlviz.evaluate.returns`
- `qedr_vectors.npz`: codes, factors, and their importance, D, C and I by scikit-learn; reference of
  `srlviz.evaluate.disentanglement`
"""
