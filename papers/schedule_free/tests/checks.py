"""Unit tests on the outputs of the cases: closed forms, properties and edge cases."""
from rcb_env.cases import check
