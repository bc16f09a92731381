"""Model-based learning: ensembles of dynamics models, MBPO and MBMPO."""
