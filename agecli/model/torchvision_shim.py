"""torchvision, imported so that it also works beside a build of torch that its compiled operators don't fit.

There `import torchvision` ends with "operator torchvision::nms does not exist", although models and transforms
need none of those operators. Declaring the two names it asks for lets the import through. Elsewhere this does nothing.
Import timm only after this module: it imports torchvision itself.
"""

from __future__ import annotations

import sys

import torch

try:
    import torchvision
except RuntimeError as error:
    if "operator torchvision::nms does not exist" not in str(error):
        raise
    _DECLARED = torch.library.Library("torchvision", "FRAGMENT")  # kept alive: the names go with it
    for _name in ("nms", "qnms"):
        _DECLARED.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    for _name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[_name]  # what the failed import left half done
    import torchvision

from torchvision.transforms import v2

__all__ = ["torchvision", "v2"]
