# It imports TRL, which the tests do not install.
collect_ignore = ["make_trl_vectors.py"]
