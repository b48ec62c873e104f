# They import TRL and verl, which the tests do not install.
collect_ignore = ["make_trl_vectors.py", "make_verl_vectors.py"]
