"""The differentiable forest: routing, leaves and annealing. Tensors and numbers only."""
