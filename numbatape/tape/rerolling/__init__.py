"""Re-rolling: what the pass of that name (`numbatape.tape.passes.reroll`) consists of."""
