"""torchvision, imported also if its compiled operators do not match the build of torch.

In that case `import torchvision` fails with "operator torchvision::nms does not exist", although models and transforms
need none of those operators; declaring the two missing names makes it succeed. Import timm only after this module,
because it imports torchvision itself.
"""

from __future__ import annotations

import sys

import torch

try:
    import torchvision
except RuntimeError as error:
    if "operator torchvision::nms does not exist" not in str(error):
        raise
    _DECLARED = torch.library.Library("torchvision", "FRAGMENT")  # must stay alive as long as the names
    for _name in ("nms", "qnms"):
        _DECLARED.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    for _name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[_name]  # partly initialised modules of the failed import
    import torchvision

from torchvision.transforms import v2

__all__ = ["torchvision", "v2"]
