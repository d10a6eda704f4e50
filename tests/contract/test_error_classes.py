"""What torch raises, by class: it has one type for sizes, dtypes and all else, so its messages are read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import rcb_env
from rcb_env.errors import RcbError
from rcb_env.grading.causes import error_class
from rcb_env.sandbox import images

PROGRAM = """
import json, sys, types
package = types.ModuleType("rcb_env")
package.__path__ = [sys.argv[1]]
sys.modules["rcb_env"] = package
import torch
from rcb_env.runner.case_run import describe
one, two = torch.ones(3), torch.ones(2)
told = {}
for code in json.load(sys.stdin):
    try:
        exec(code)
    except BaseException as error:
        told[code] = describe(error)
print(json.dumps(told))
"""
SHAPE = [
    "one + two",
    "torch.ones(2, 3) @ torch.ones(2, 3)",
    "torch.ones(2, 3).view(4)",
    "torch.ones(2, 3).expand(4, 3)",
    "torch.ones(1, 2).permute(0, 1, 2)",
    "torch.cat([torch.ones(1, 2), torch.ones(2, 3)], 0)",
    "torch.stack([one, two])",
    "torch.bmm(torch.ones(1, 2, 3), torch.ones(1, 2, 3))",
    "torch.einsum('ij,jk->ik', torch.ones(2, 3), torch.ones(2, 3))",
    "torch.nn.functional.conv1d(torch.ones(1, 2, 4), torch.ones(1, 3, 2))",
    "torch.nn.functional.layer_norm(torch.ones(4), (3,))",
    "torch.nn.functional.mse_loss(torch.ones(2, 3), torch.ones(4, 5))",
    "torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.ones(3).long())",
    "one.sum(dim=4)",
    "one[0, 0]",
    "one.item()",
    "bool(one == one)",
    "one.requires_grad_().backward()",
    "torch.nn.Linear(3, 2).load_state_dict(torch.nn.Linear(4, 2).state_dict())",
    "torch.testing.assert_close(one, two)",
    "torch.allclose(one, two)",
    "import unittest; unittest.TestCase().assertEqual(one.shape, two.shape)",
]
TYPE = [
    "torch.ones(2, 2) @ torch.ones(2, 2).double()",
    "torch.allclose(one, one.double())",
    "torch.testing.assert_close(one, one.double())",
    "one.long().add_(0.5)",
    "torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.ones(2).int())",
    "torch.add(one, None)",
    "import unittest; unittest.TestCase().assertEqual(one.dtype, one.double().dtype)",
]
VALUE = ["torch.testing.assert_close(one, one + 1)"]
OTHER = [
    "torch.ones(3).sum().backward()",
    "two.requires_grad_().add_(1)",
]


def test_what_torch_raises_has_the_class_of_its_cause() -> None:
    try:
        python = images.realise("cpu").executable
    except RcbError as error:
        pytest.skip(str(error))
    wanted = {
        code: kind
        for kind, codes in (("shape", SHAPE), ("type", TYPE), ("value", VALUE), ("other", OTHER))
        for code in codes
    }
    done = subprocess.run(
        [python, "-c", PROGRAM, str(Path(rcb_env.__file__).parent)],
        input=json.dumps(list(wanted)),
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    assert set(told) == set(wanted), "each of them raises"
    found = {code: error_class(error) for code, error in told.items()}
    wrong = {code: (found[code], told[code]) for code in wanted if found[code] != wanted[code]}
    assert not wrong, "\n".join(f"{code}: {kind}: {error}" for code, (kind, error) in wrong.items())
